package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// input is the standard input until a context ends. Nothing ends a read of a terminal or of a pipe
// whose writer waits, so one that is under way then is left behind: the command ends, and with it
// the process.
type input struct {
	ctx context.Context //nolint:containedctx // a reader has no other place for it
	in  io.Reader
}

// Read reads as the standard input does. It fails when the context ends.
func (i *input) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	read := make(chan result, 1)
	own := make([]byte, len(p)) // the caller has p again, while a read goes on that is left behind
	go func() {
		n, err := i.in.Read(own)
		read <- result{n, err}
	}()
	select {
	case r := <-read:
		return copy(p, own[:r.n]), r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err() //nolint:wrapcheck // callers say what they were reading
	}
}

// input returns the standard input for a command, which may be told to stop.
func (t *tool) input(ctx context.Context) io.Reader { return &input{ctx, t.in} }

// readManifests reads files of definitions. What is wrong in them is an error of usage.
func (t *tool) readManifests(
	ctx context.Context, files []string, app string,
) ([]manifest.Manifest, error) {
	all, err := manifest.Read(files, t.input(ctx), app)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("reading definitions: %w", ctx.Err())
	case err != nil:
		return nil, usageError(err.Error())
	}
	return all, nil
}
