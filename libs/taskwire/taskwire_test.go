package taskwire_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

var fires = map[string]timer.Fire{
	"usual": {
		FireID: timer.FireID{
			Timer: 177_000_000_000_001,
			DueMS: 1_767_225_600_000,
		},
		RunAtMS: 1_767_225_600_000,
		Bucket:  3,
		AppID:   12,
		Version: 1,
		Epoch:   1,
	},
	"smallest": {FireID: timer.FireID{Timer: 1}},
	"full": {
		FireID: timer.FireID{
			Timer:  timer.MaxID,
			DueMS:  math.MaxInt64,
			Series: math.MaxInt64,
		},
		RunAtMS:         math.MaxInt64,
		Bucket:          math.MaxInt32,
		AppID:           math.MinInt64,
		Version:         math.MinInt32,
		Epoch:           -1,
		Cause:           254,
		State:           timer.FireRetrying,
		Attempt:         math.MaxInt32,
		FirstLatenessMS: math.MinInt64,
		Rev:             -5,
		PriorityLevel:   timer.LevelLow,
		WaitingSinceMS:  math.MaxInt64,
		WaitedFor:       timer.WaitWorker,
	},
}

func message(f timer.Fire) *carillonv1.Task {
	return &carillonv1.Task{
		TimerId: int64(
			f.Timer,
		),
		DueMs:    f.DueMS,
		Series:   f.Series,
		RunAtMs:  f.RunAtMS,
		Bucket:   f.Bucket,
		AppId:    f.AppID,
		Version:  f.Version,
		Epoch:    f.Epoch,
		Cause:    uint32(f.Cause),
		State:    uint32(f.State),
		Attempt:  f.Attempt,
		Rev:      f.Rev,
		LateMs:   f.FirstLatenessMS,
		Priority: uint32(f.PriorityLevel),

		WaitingSinceMs: f.WaitingSinceMS,
		WaitedFor:      uint32(f.WaitedFor),
	}
}

func TestTasksEqualProtoEncoding(t *testing.T) {
	t.Parallel()
	for name, f := range fires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(message(f))
			require.NoError(t, err)
			got := taskwire.Encode(&f)
			require.Equal(t, want, got)
			require.LessOrEqual(t, len(got), taskwire.MaxLen)
			back, err := taskwire.Decode(got)
			require.NoError(t, err)
			require.Equal(t, f, back)
			require.Equal(t, append([]byte("x"), want...), taskwire.Append([]byte("x"), &f))
		})
	}
}

func TestTasksHaveTheirPath(t *testing.T) {
	t.Parallel()
	for name, f := range fires {
		m := message(f)
		m.Path = uint32(timer.PathDirect)
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		require.NoError(t, err)
		got := taskwire.EncodeTask(&f, timer.PathDirect)
		require.Equal(t, want, got, name)
		require.LessOrEqual(t, len(got), taskwire.MaxLen)
		require.Len(t, got, len(taskwire.Encode(&f))+2)
		back, path, err := taskwire.DecodeTask(got)
		require.NoError(t, err)
		require.Equal(t, f, back)
		require.Equal(t, timer.PathDirect, path)
	}
}

func TestTasksOmitOwnerAndTargetBits(t *testing.T) {
	t.Parallel()
	f := fires["usual"]
	plain := taskwire.Encode(&f)
	f.Owner, f.TargetBits = 7, 9
	require.Equal(t, plain, taskwire.Encode(&f))
}

func TestDecodeSkipsUnknownFields(t *testing.T) {
	t.Parallel()
	f := fires["usual"]
	b := protowire.AppendTag(taskwire.Encode(&f), 99, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte("new"))
	b = protowire.AppendTag(b, 100, protowire.VarintType)
	b = protowire.AppendVarint(b, 5)
	got, err := taskwire.Decode(b)
	require.NoError(t, err)
	require.Equal(t, f, got)

	b = protowire.AppendTag(taskwire.Encode(&f), 10, protowire.VarintType)
	got, err = taskwire.Decode(protowire.AppendVarint(b, 257))
	require.NoError(t, err)
	require.Equal(
		t,
		timer.FireState(255),
		got.State,
		"an unknown state is not mistaken for a known one",
	)
}

func TestDecodeRejectsTasksWithoutAFire(t *testing.T) {
	t.Parallel()
	bad := map[string]timer.Fire{
		"no timer":        {RunAtMS: 5},
		"negative timer":  {FireID: timer.FireID{Timer: -1}},
		"timer too large": {FireID: timer.FireID{Timer: timer.MaxID + 1}},
		"negative due":    {FireID: timer.FireID{Timer: 1, DueMS: -1}},
		"negative run":    {FireID: timer.FireID{Timer: 1}, RunAtMS: -1},
		"negative series": {FireID: timer.FireID{Timer: 1, Series: -1}},
		"negative bucket": {FireID: timer.FireID{Timer: 1}, Bucket: -1},
	}
	for name, f := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := taskwire.Decode(taskwire.Encode(&f))
			require.ErrorContains(t, err, "identifies no fire")
		})
	}
	f := fires["usual"]
	b := taskwire.Encode(&f)
	_, err := taskwire.Decode(b[:len(b)-1])
	require.ErrorContains(t, err, "decoding a task")
	_, err = taskwire.Decode(nil)
	require.Error(t, err)
}

func FuzzDecode(f *testing.F) {
	for _, fire := range fires {
		f.Add(taskwire.Encode(&fire))
	}
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		fire, err := taskwire.Decode(b)
		if err != nil {
			return
		}
		again, err := taskwire.Decode(taskwire.Encode(&fire))
		require.NoError(t, err)
		require.Equal(t, fire, again)
		var m carillonv1.Task
		if proto.Unmarshal(b, &m) == nil && m.GetCause() < 255 && m.GetState() < 255 {
			require.Equal(t, m.GetRunAtMs(), fire.RunAtMS)
			require.Equal(t, m.GetRev(), fire.Rev)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	f := fires["usual"]
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = taskwire.Append(buf[:0], &f)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkDecode(b *testing.B) {
	f := fires["usual"]
	buf := taskwire.Encode(&f)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := taskwire.Decode(buf); err != nil {
			b.Fatal(err)
		}
	}
}
