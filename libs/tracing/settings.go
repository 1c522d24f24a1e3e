package tracing

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Env looks up a variable of the program's environment.
type Env func(key string) (value string, ok bool)

// get returns the first of the variables that is set. An empty variable counts as unset.
func (e Env) get(keys ...string) string {
	for _, key := range keys {
		if v, ok := e(key); ok && strings.TrimSpace(v) != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// The protocols of OTLP.
const (
	overGRPC = "grpc"
	overHTTP = "http/protobuf"
)

const defaultQueue = 2048

// settings are what this package reads from the environment. The exporters read the rest: endpoint,
// headers, certificates, timeout and compression. So do the batches (OTEL_BSP_…) and the limits of
// spans.
type settings struct {
	protocol    string // empty: nothing is exported
	serviceName string // empty: the program's
	sampler     string // one of the standard's names
	ratio       float64
	queue       int
}

// readSettings reads the environment. Nothing is exported unless an exporter or an endpoint is set.
func readSettings(env Env) (s settings, err error) {
	if strings.EqualFold(env.get("OTEL_SDK_DISABLED"), "true") {
		return s, nil
	}
	switch exporter := env.get("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return s, nil
	case "":
		if env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
			return s, nil
		}
	case "otlp":
	default:
		return s, expected("OTEL_TRACES_EXPORTER", "otlp or none", exporter)
	}
	s.serviceName = env.get("OTEL_SERVICE_NAME")
	s.protocol = env.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	switch s.protocol {
	case "":
		s.protocol = overHTTP
	case overGRPC, overHTTP:
	default:
		return s, expected("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc or http/protobuf", s.protocol)
	}
	if err := checkEndpoint(env); err != nil {
		return s, err
	}
	s.queue = defaultQueue
	if text := env.get("OTEL_BSP_MAX_QUEUE_SIZE"); text != "" {
		if s.queue, err = strconv.Atoi(text); err != nil || s.queue < 1 {
			return s, expected("OTEL_BSP_MAX_QUEUE_SIZE", "a number of spans", text)
		}
	}
	return s, s.readSampler(env)
}

// checkEndpoint refuses an endpoint that an exporter would replace by its default, localhost. The
// second variable counts only where the first is not set.
func checkEndpoint(env Env) error {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT",
	} {
		text := env.get(name)
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
		if !web && (err != nil || u.Scheme != "unix") {
			return expected(name, "a URL such as http://collector:4318", text)
		}
		return nil
	}
	return nil
}

func (s *settings) readSampler(env Env) (err error) {
	s.ratio = 1
	if text := env.get("OTEL_TRACES_SAMPLER_ARG"); text != "" {
		if s.ratio, err = strconv.ParseFloat(
			text,
			64,
		); err != nil ||
			!(s.ratio >= 0 && s.ratio <= 1) {
			return expected("OTEL_TRACES_SAMPLER_ARG", "a ratio from 0 to 1", text)
		}
	}
	s.sampler = env.get("OTEL_TRACES_SAMPLER")
	if s.sampler == "" {
		s.sampler = "parentbased_always_on"
	}
	if s.root() == nil {
		return expected(
			"OTEL_TRACES_SAMPLER",
			"always_on, always_off, traceidratio, or one of these after parentbased_",
			s.sampler,
		)
	}
	return nil
}

// byParent reports whether the sampler follows the decision of the caller.
func (s *settings) byParent() bool { return strings.HasPrefix(s.sampler, "parentbased_") }

// root returns the sampler of traces that begin here, or nil if there is none of its name.
func (s *settings) root() sdktrace.Sampler {
	switch strings.TrimPrefix(s.sampler, "parentbased_") {
	case "always_on":
		return sdktrace.AlwaysSample()
	case "always_off":
		return sdktrace.NeverSample()
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(s.ratio)
	}
	return nil
}

func expected(name, what, found string) error {
	return fmt.Errorf("%s: expected %s, found %q", name, what, found)
}
