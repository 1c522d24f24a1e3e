package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestApplyNamesRemovedDates checks that an apply of a calendar says on standard error which dates it
// removes, as an import may have put them there.
func TestApplyNamesRemovedDates(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	write := func(dates string) string {
		return u.file("days.yaml", "kind: calendar\nname: wd\n"+dates)
	}
	_, said, err := u.split("apply", "-f", write(
		"excluded_dates: [2026-12-24, 2026-12-25, 2026-12-26, 2026-12-31]\n"+
			"included_dates: [2026-12-19]\n"))
	require.NoError(t, err)
	require.Empty(t, said)
	less := write("excluded_dates: [2026-12-31]\nincluded_dates: [2026-12-20]\n")
	none := write("")
	for _, c := range []struct {
		args []string
		want string
	}{
		{
			[]string{"apply", "--dry-run", "-f", less},
			"calendar shop/wd: 3 excluded dates that it had are not in the file and would be removed " +
				"(2026-12-24, 2026-12-25, 2026-12-26)\n" +
				"calendar shop/wd: 1 included date that it had is not in the file and would be removed " +
				"(2026-12-19)\n",
		},
		{
			[]string{"apply", "--dry-run", "-o", "json", "-f", none},
			"calendar shop/wd: 4 excluded dates that it had are not in the file and would be removed " +
				"(2026-12-24, 2026-12-25, 2026-12-26, …)\n" +
				"calendar shop/wd: 1 included date that it had is not in the file and would be removed " +
				"(2026-12-19)\n",
		},
		{
			[]string{"apply", "-f", less},
			"calendar shop/wd: 3 excluded dates that it had are not in the file and were removed " +
				"(2026-12-24, 2026-12-25, 2026-12-26)\n" +
				"calendar shop/wd: 1 included date that it had is not in the file and was removed " +
				"(2026-12-19)\n",
		},
		{[]string{"apply", "-f", less}, ""},
	} {
		_, said, err := u.split(c.args...)
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, said, c.args)
	}
}
