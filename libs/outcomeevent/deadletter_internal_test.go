package outcomeevent

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestDeadLetterHasTheFireAsTasksDo(t *testing.T) {
	t.Parallel()
	f := timer.Fire{
		FireID: timer.FireID{
			DueMS:  1,
			Timer:  2,
			Series: 3,
		},
		RunAtMS:         4,
		Bucket:          5,
		AppID:           6,
		Version:         7,
		Epoch:           8,
		Cause:           timer.CauseRedrive,
		State:           timer.FireDeferred,
		Attempt:         9,
		FirstLatenessMS: 10,
		Rev:             11,
		PriorityLevel:   timer.LevelLow,
	}
	deadLetter, err := proto.Marshal(taskOf(&f))
	require.NoError(t, err)
	require.Equal(t, taskwire.Encode(&f), deadLetter)
}
