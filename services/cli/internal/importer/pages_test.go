package importer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/importer"
)

// TestAllPagesOfJobs checks that no page of XXL-JOB is taken for all of its jobs.
func TestAllPagesOfJobs(t *testing.T) {
	t.Parallel()
	const job = `{"id":1,"jobDesc":"a","scheduleType":"FIX_RATE","scheduleConf":"60"}`
	for _, c := range []struct {
		file string
		jobs int // 0: refused
	}{
		{`{"recordsFiltered":57,"recordsTotal":57,"data":[` + job + `]}`, 0},
		{`{"recordsTotal":3,"data":[` + job + `]}` + "\n" + `{"recordsTotal":3,"data":[` + job + `]}`, 0},
		{`{"recordsTotal":2,"data":[` + job + `]}` + "\n" + `{"recordsTotal":2,"data":[` + job + `]}`, 2},
		{`{"recordsTotal":1,"data":[` + job + `]}`, 1},
		{`{"data":[` + job + `]}`, 1},
		{`[` + job + `]`, 1},
	} {
		all, err := importer.Read("xxl-job", []byte(c.file), someOptions)
		if c.jobs > 0 {
			require.NoError(t, err, c.file)
			require.Len(t, all, c.jobs, c.file)
			continue
		}
		require.ErrorContains(t, err, "recordsTotal: expected all ", c.file)
		require.ErrorContains(t, err, "start=0 and length=", c.file)
	}
}
