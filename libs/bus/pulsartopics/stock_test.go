package pulsartopics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/testenv"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// TestStockClientReadsTheSame: the Python client, which has none of our files, decodes each kind of
// message with the schema registered for its topic.
func TestStockClientReadsTheSame(t *testing.T) {
	t.Parallel()
	python := testenv.PulsarClient(t)
	d := setup(t)
	for _, c := range []struct {
		topic        bus.Topic
		subscription string
		sent         proto.Message
	}{
		{bus.TasksNormal, bus.SubExecutors, &carillonv1.Task{TimerId: 1 << 60, DueMs: 1_800_000_000_000, RunAtMs: -1, Bucket: 3, AppId: 9, Attempt: 2}},
		{bus.Slices, bus.SubTriggers, &carillonv1.Slice{Minute: 30_000_000, Bucket: 7, Token: 12}},
		{bus.TasksDead, "listeners", &carillonv1.DeadTask{
			App: "shop ☂", Reason: "attempts", Raw: []byte{0, 0xff}, Task: &carillonv1.Task{TimerId: 5}, StatusCode: 503,
		}},
		{bus.Outcomes, "listeners", &carillonv1.Outcome{TimerId: 4, Kind: "delivered", LatenessMs: 2, Attempts: 1}},
		{bus.TimersChanged, "listeners", &carillonv1.TimerChanged{TimerId: 4, Seq: 88}},
	} {
		t.Run(string(c.topic), func(t *testing.T) {
			t.Parallel()
			const sent = 5
			payload, err := proto.Marshal(c.sent)
			require.NoError(t, err)
			for range sent {
				require.NoError(t, d.bus.Publish(t.Context(), c.topic, bus.Message{
					Key: "k", Payload: payload, Properties: map[string]string{bus.PropApp: "shop"},
				}))
			}
			cmd := exec.CommandContext(
				t.Context(),
				python,
				"testdata/read.py",
				d.place.URL,
				d.place.AdminURL,
				d.place.Tenant,
				d.place.Namespace,
				string(c.topic),
				c.subscription,
				strconv.Itoa(sent),
			)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			require.NoError(t, cmd.Run(), "%s", &errs)
			n := 0
			for dec := json.NewDecoder(&out); dec.More(); n++ {
				var got struct {
					Message    json.RawMessage
					Properties map[string]string
					Key        string
				}
				require.NoError(t, dec.Decode(&got))
				require.Equal(t, map[string]string{bus.PropApp: "shop"}, got.Properties)
				require.Equal(t, "k", got.Key)
				m := c.sent.ProtoReflect().New().Interface()
				require.NoError(t, protojson.Unmarshal(got.Message, m))
				require.True(t, proto.Equal(c.sent, m), fmt.Sprint(m))
			}
			require.Equal(t, sent, n)
		})
	}
}
