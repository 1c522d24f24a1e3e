package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// fileConfig are the settings of the exporter.
type fileConfig struct {
	Path string `mapstructure:"path"`
}

// Validate implements xconfmap.Validator.
func (c *fileConfig) Validate() error {
	if c.Path == "" {
		return errors.New("path is missing")
	}
	return nil
}

// fileExporter appends each batch to a file and answers the sender only then.
type fileExporter struct {
	path string

	mu   sync.Mutex
	file *os.File
	json ptrace.JSONMarshaler
}

func newFileExporter() exporter.Factory {
	return exporter.NewFactory(
		component.MustNewType("file"),
		func() component.Config { return &fileConfig{} },
		exporter.WithTraces(
			func(_ context.Context, _ exporter.Settings, c component.Config) (exporter.Traces, error) {
				return &fileExporter{path: c.(*fileConfig).Path}, nil
			},
			component.StabilityLevelStable,
		),
	)
}

// Start opens the file.
func (f *fileExporter) Start(context.Context, component.Host) (err error) {
	f.file, err = os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the file of spans: %w", err)
	}
	return nil
}

// Shutdown closes the file.
func (f *fileExporter) Shutdown(context.Context) error {
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("closing the file of spans: %w", err)
	}
	return nil
}

// Capabilities tells that batches are only read.
func (f *fileExporter) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeTraces appends a batch.
func (f *fileExporter) ConsumeTraces(_ context.Context, batch ptrace.Traces) error {
	line, err := f.json.MarshalTraces(batch)
	if err != nil {
		return fmt.Errorf("encoding spans: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing spans: %w", err)
	}
	return nil
}
