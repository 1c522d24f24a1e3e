package sqlstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotFlushed(t *testing.T) {
	t.Parallel()
	const log, binlog = "innodb_flush_log_at_trx_commit", "sync_binlog"
	for _, tt := range []struct {
		have map[string]string
		want string
	}{
		{map[string]string{log: "1", "log_bin": "OFF", binlog: "0"}, ""},
		{map[string]string{log: "1", "log_bin": "ON", binlog: "1"}, ""},
		{map[string]string{log: "1", "log_bin": "ON", binlog: "0"}, binlog},
		{map[string]string{log: "2", "log_bin": "ON", binlog: "1"}, log},
	} {
		name, value := notFlushed(tt.have)
		require.Equal(t, tt.want, name)
		require.Equal(t, tt.have[tt.want], value)
	}
}
