package sqlstore_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestMySQLAddresses connects to the first address that answers as a server.
func TestMySQLAddresses(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	silent, closed := listen(), listen() // one takes connections and says nothing
	require.NoError(t, closed.Close())
	for name, addrs := range map[string][]string{
		"alone":        {cfg.Addr},
		"after closed": {closed.Addr().String(), cfg.Addr},
		"after silent": {silent.Addr().String(), cfg.Addr},
		"before both":  {cfg.Addr, closed.Addr().String(), silent.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := strings.Replace(dsn, cfg.Addr, strings.Join(addrs, ","), 1)
			s := openMySQL(t, sqlstore.MySQLOptions{DSN: to})
			port, err := s.Port(t.Context())
			require.NoError(t, err)
			require.Equal(t, cfg.Addr, fmt.Sprint("127.0.0.1:", port))
		})
	}
}

func TestMySQLAddressesOfDSN(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"u:p@tcp(a:1,b)/d":        `"b" in the list of addresses`,
		"u:p@tcp(a:1,b:2,a:1)/d":  "twice",
		"u:p@unix(/s,b:2)/d":      "in the list of addresses",
		"u:p@tcp(a:1,)/d":         "in the list of addresses",
		"u:p@tcp(a:1,b:2)/":       "names no database",
		"u:p@ss(1,2)@tcp(a:1,/d":  "",
		"u:p,@x/y@tcp(a:1,b:2)/d": "-",
	} {
		s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: dsn})
		if want == "-" {
			require.NoError(t, err, dsn)
			require.NoError(t, s.Close())
			continue
		}
		require.Equal(t, timer.CodeInvalid, timer.CodeOf(err), dsn)
		require.ErrorContains(t, err, want, dsn)
	}
}
