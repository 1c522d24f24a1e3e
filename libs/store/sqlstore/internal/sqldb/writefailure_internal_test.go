package sqldb

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestLastWriteErrorIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := New(SQLiteDialect(nil), nil, zerolog.Nop())
		db.noteWrite(t.Context(), errors.New("refused"), errors.New("no outage"))
		require.NoError(t, db.LastWriteError())
		db.noteWrite(t.Context(), io.EOF, errors.New("no room left"))
		time.Sleep(writeFailureAge)
		require.EqualError(t, db.LastWriteError(), "a write failed 1m0s ago: no room left")
		time.Sleep(time.Second)
		require.NoError(t, db.LastWriteError())
	})
}
