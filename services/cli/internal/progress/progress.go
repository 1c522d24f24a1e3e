// Package progress shows how far a long command is, on the terminal where its errors go.
package progress

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Unknown is the total of work whose size is not known. Its bar counts what is done.
const Unknown int64 = -1

// width is how many columns the bar itself takes. A narrower terminal makes it shorter.
const width = 30

// Bar is the progress of one command. It writes only within its methods and starts no goroutine, so
// its owner may print between them, see Above. The nil *Bar shows nothing. A Bar is not safe for
// concurrent use. A terminal that is gone fails the command's own output, so errors of drawing are
// left out.
type Bar struct {
	w           io.Writer
	label       string
	done, total int64
	shown       *progressbar.ProgressBar // nil after Done
}

// New draws a bar with a label such as "applying timers". total is how much there is to do, or
// Unknown. It returns nil if w is no terminal, TERM is dumb, or there is nothing to do: scripts and
// logs never see a bar. The owner calls Done, also after an error.
func New(w io.Writer, label string, total int64) *Bar {
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" || total == 0 {
		return nil
	}
	b := &Bar{w: w, label: label, total: max(total, Unknown)}
	b.draw()
	return b
}

// draw makes the bar of the library anew.
func (b *Bar) draw() {
	b.shown = progressbar.NewOptions64(b.total,
		progressbar.OptionSetWriter(b.w),
		progressbar.OptionSetDescription(b.label),
		progressbar.OptionSetWidth(width),
		progressbar.OptionShowCount(),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // otherwise it starts a goroutine
	)
	_ = b.shown.RenderBlank()
	_ = b.shown.Add64(b.done)
}

// Add notes that n more are done, and draws the bar. Call it for each page or batch. More than the
// total counts as the total.
func (b *Bar) Add(n int64) {
	if b == nil || b.shown == nil {
		return
	}
	if b.total != Unknown {
		n = min(n, b.total-b.done)
	}
	b.done += n
	_ = b.shown.Add64(n)
}

// Set notes how many are done in all, and of how many. The total may become known, or change, while
// the work goes on.
func (b *Bar) Set(done, total int64) {
	if b == nil || b.shown == nil {
		return
	}
	total = max(total, Unknown)
	if total == 0 || total == b.total {
		b.Add(done - b.done)
		return
	}
	_ = b.shown.Clear()
	b.done, b.total = done, total
	if total != Unknown {
		b.done = min(done, total)
	}
	b.draw()
}

// Above runs write with the bar out of the way, and draws the bar again below what it wrote. It
// returns the error of write.
func (b *Bar) Above(write func() error) error {
	if b == nil || b.shown == nil {
		return write()
	}
	_ = b.shown.Clear()
	err := write()
	_ = b.shown.RenderBlank()
	return err
}

// Done removes the bar, so that the result of the command stands alone. A second call does nothing.
func (b *Bar) Done() {
	if b == nil || b.shown == nil {
		return
	}
	_ = b.shown.Clear()
	b.shown = nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
