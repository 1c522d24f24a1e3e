package egress_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
)

func TestTopics(t *testing.T) {
	t.Parallel()
	open, err := egress.NewTopics(
		[]string{"pulsar+ssl://partner.example:6651"},
		[]string{"shop/events", "persistent://team/hooks/", "persistent://team/more/order-"},
	)
	require.NoError(t, err)
	var none *egress.Topics
	for _, c := range []struct {
		url, topic string
		why        string // empty: allowed
	}{
		{"", "persistent://shop/events/due", ""},
		{"", "persistent://team/hooks/a", ""},
		{"", "persistent://team/more/order-eu", ""},
		{"", "persistent://team/more/orders", "callback-topics"},
		{"", "persistent://shop/events-of-others/due", "callback-topics"},
		{"", "persistent://other/events/due", "callback-topics"},
		{"", "persistent://pulsar/system/x", "own tenant"},
		{"pulsar+ssl://partner.example:6651", "persistent://anything/there/x", ""},
		{"pulsar+ssl://partner.example:6651", "persistent://pulsar/system/x", "own tenant"},
		{"pulsar+ssl://partner.example:6651/", "persistent://a/b/c", "callback-pulsar-urls"},
		{"pulsar://partner.example:6651", "persistent://shop/events/due", "callback-pulsar-urls"},
	} {
		err := open.Check(c.url, c.topic)
		if c.why == "" {
			require.NoError(t, err)
		} else {
			var refused *egress.RefusedError
			require.ErrorAs(t, err, &refused, c.topic)
			require.ErrorContains(t, err, c.why)
		}
		require.Error(t, none.Check(c.url, c.topic), "nothing is open unless it is listed")
		require.Error(t, (&egress.Topics{}).Check(c.url, c.topic))
	}
	for _, bad := range []string{"x", "team/", "/hooks", "a/b/c/d", "pulsar/system", "persistent://pulsar/x/", "non-persistent://a/b"} {
		_, err := egress.NewTopics(nil, []string{bad})
		require.Error(t, err, bad)
	}
	for _, bad := range []string{"partner.example:6650", "http://a:1", "pulsar://a", "pulsar://:1"} {
		_, err := egress.NewTopics([]string{bad}, nil)
		require.Error(t, err, bad)
	}
}
