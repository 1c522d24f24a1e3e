package importer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/importer"
)

// FuzzCrontab checks that no line stops the importer, and that it says why it leaves one out.
func FuzzCrontab(f *testing.F) {
	for _, seed := range []string{
		"A=b\n0 9 * * 1 curl -d \"$A\" 'https://e.com/' >/dev/null 2>&1 || true",
		"@daily (cd /; timeout -k 5 9 nice -n 1 curl -XPUT --json @- e.com) %{}%",
		"SHELL=bash\n@daily wget -nv {a,b} $'c' <<<d |& e & ! f",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := importer.Read("crontab", []byte(text), importer.Options{App: "shop"})
		require.NoError(t, err)
		for i := range all {
			require.True(t, all[i].Manifest != nil || len(all[i].Refused)+len(all[i].Notes) > 0)
		}
	})
}
