package scenario

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// collector is an OpenTelemetry Collector that writes the spans that it receives to a file.
type collector struct {
	endpoint string // of OTLP over gRPC
	file     string
}

// buildCollector builds the program once per run. Where it is built already that takes a second.
var buildCollector = sync.OnceValues(func() (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	program := filepath.Join(binDir, "carillon-test-collector")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(root, "e2e", "collector")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the collector: %w\n%s", err, out)
	}
	return program, nil
})

// startCollector runs a collector until the end of the test.
func startCollector(t *testing.T) *collector {
	t.Helper()
	program, err := buildCollector()
	require.NoError(t, err)
	c := &collector{endpoint: freeAddr(t), file: filepath.Join(t.TempDir(), "spans.json")}
	log, err := os.Create(c.file + ".log")
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	cmd := exec.CommandContext(t.Context(), program, "--config", fmt.Sprintf(
		`yaml:{receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}, exporters: {file: {path: "%s"}}, `+
			`service: {pipelines: {traces: {receivers: [otlp], exporters: [file]}}}}`,
		c.endpoint,
		c.file,
	))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has written every span that it has answered
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of the collector:\n%s", text)
		}
	})
	require.Eventually(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", c.endpoint)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, patience, 50*time.Millisecond, "the collector does not listen")
	return c
}

// freeAddr returns an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// span is a span as the collector received it.
type span struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	StartNS      int64  `json:"startTimeUnixNano,string"`
	EndNS        int64  `json:"endTimeUnixNano,string"`
	Attributes   []attribute
	Links        []struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	Status struct {
		Code    int
		Message string
	}

	service string // that exported it
}

type attribute struct {
	Key   string
	Value struct {
		StringValue string
		IntValue    string
	}
}

// attr returns an attribute as text.
func (s *span) attr(key string) string {
	for i := range s.Attributes {
		if a := &s.Attributes[i]; a.Key == key {
			return a.Value.StringValue + a.Value.IntValue
		}
	}
	return ""
}

// spans returns what the collector has received of a trace, by name.
func (c *collector) spans(t *testing.T, trace string) map[string][]span {
	t.Helper()
	text, err := os.ReadFile(c.file)
	require.NoError(t, err)
	out := make(map[string][]span)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var batch struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []attribute }
				ScopeSpans []struct{ Spans []span }
			}
		}
		if json.Unmarshal(lines.Bytes(), &batch) != nil {
			continue // the last line may still be written
		}
		for _, resource := range batch.ResourceSpans {
			of := span{Attributes: resource.Resource.Attributes}
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					if s.TraceID == trace {
						s.service = of.attr("service.name")
						out[s.Name] = append(out[s.Name], s)
					}
				}
			}
		}
	}
	return out
}

// await waits until a trace has n spans of each name. Spans that were made at once may come one
// after the other.
func (c *collector) await(t *testing.T, trace string, n int, names ...string) map[string][]span {
	t.Helper()
	require.Eventually(
		t,
		func() bool {
			spans := c.spans(t, trace)
			return !slices.ContainsFunc(
				names, func(name string) bool { return len(spans[name]) < n })
		},
		patience, 100*time.Millisecond,
		"fewer than %d spans %v in trace %s", n, names, trace,
	)
	return c.spans(t, trace)
}

// traceOf returns the trace id and the span id of a traceparent.
func traceOf(t *testing.T, traceparent string) (trace, id string) {
	t.Helper()
	parts := strings.Split(traceparent, "-")
	require.Len(t, parts, 4, traceparent)
	require.Equal(t, "01", parts[3], "sampled")
	return parts[1], parts[2]
}
