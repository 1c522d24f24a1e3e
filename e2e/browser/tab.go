package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a page may take for one step. It decides only over "never".
const patience = 30 * time.Second

// Tab is one tab. It is not safe for concurrent use.
type Tab struct {
	ctx  context.Context //nolint:containedctx // chromedp's handle of the tab
	root string

	mu         sync.Mutex
	complaints []string
	received   float64 // bytes of the page that is shown
}

// Open opens a tab for the pages below root, such as http://127.0.0.1:8080. It has no cookies.
func (b *Browser) Open(t *testing.T, root string) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	tab := &Tab{ctx: ctx, root: root}
	require.NoError(t, chromedp.Do(ctx), "opening a tab") // its context limits the tab's life
	require.NoError(t, chromedp.Listen(ctx, tab.observe))
	call(t, tab, log.Enable, cdp.Empty{})
	call(t, tab, network.Enable, network.EnableParams{})
	call(t, tab, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	call(t, tab, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"})
	tab.Size(t, 1280, 900)
	tab.Dark(t, false)
	return tab
}

// observe notes what goes wrong, and how much the page receives.
func (tab *Tab) observe(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		//nolint:exhaustive // the others tell of no fault
		switch e.Type {
		case runtime.ConsoleAPICalledTypeError, runtime.ConsoleAPICalledTypeWarning:
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			tab.complaints = append(tab.complaints, "console: "+strings.Join(words, " "))
		}
	case *runtime.EventExceptionThrown:
		tab.complaints = append(tab.complaints, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tab.complaints = append(tab.complaints,
				fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		tab.complaints = append(tab.complaints, "dialog: "+e.Message)
	case *network.EventRequestWillBeSent:
		if e.Type == network.ResourceTypeDocument && e.RedirectResponse == nil {
			tab.received = 0
		}
	case *network.EventLoadingFinished:
		tab.received += e.EncodedDataLength
	}
}

// Complaints returns what went wrong since the last call.
func (tab *Tab) Complaints() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	all := tab.complaints
	tab.complaints = nil
	return all
}

// Received returns the bytes that the page has received, headers included.
func (tab *Tab) Received() int {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return int(tab.received)
}

func (tab *Tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, steps...))
}

// get runs a step that has a value.
func get[T any](t *testing.T, tab *Tab, step chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, step)
	require.NoError(t, err)
	return v
}

// call sends a command of the protocol.
func call[P, R any](t *testing.T, tab *Tab, c cdp.Command[P, R], params P) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	_, err := chromedp.Call(ctx, c, params)
	require.NoError(t, err)
}

// Go opens a path and waits until it is loaded. Nothing is cached.
func (tab *Tab) Go(t *testing.T, path string) {
	t.Helper()
	tab.do(t, chromedp.Navigate(tab.root+path))
}

// Path returns the path and query of the page that is shown.
func (tab *Tab) Path(t *testing.T) string {
	t.Helper()
	return strings.TrimPrefix(get(t, tab, chromedp.Location()), tab.root)
}

// Size sets the size of the view.
func (tab *Tab) Size(t *testing.T, width, height int64) {
	t.Helper()
	tab.do(t, chromedp.EmulateViewport(width, height))
}

// Dark sets which theme the system prefers.
func (tab *Tab) Dark(t *testing.T, on bool) {
	t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	call(t, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
}

// Follow clicks the first element that a CSS selector finds, and waits for the page it leads to.
func (tab *Tab) Follow(t *testing.T, selector string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector)))
	require.NoError(t, err, "following %s", selector)
}

// Click clicks an element that leads to no other page.
func (tab *Tab) Click(t *testing.T, selector string) {
	t.Helper()
	tab.do(t, chromedp.Click(chromedp.CSS(selector)))
}

// Fill replaces the value of a field by typing.
func (tab *Tab) Fill(t *testing.T, selector, value string) {
	t.Helper()
	tab.do(
		t,
		chromedp.Focus(chromedp.CSS(selector)),
		chromedp.Evaluate[chromedp.Void](
			fmt.Sprintf("document.querySelector(%q).select()", selector),
		),
		chromedp.KeyEvent(value),
	)
}

// Replace replaces a part of a field's value by typing.
func (tab *Tab) Replace(t *testing.T, selector, old, value string) {
	t.Helper()
	tab.do(t, chromedp.Focus(chromedp.CSS(selector)),
		chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
			const field = document.querySelector(%q), at = field.value.indexOf(%q);
			field.setSelectionRange(at, at + %d);
		})()`, selector, old, len(old))),
		chromedp.KeyEvent(value))
}

// Choose chooses an option of a list.
func (tab *Tab) Choose(t *testing.T, selector, value string) {
	t.Helper()
	tab.do(t, chromedp.SetValue(chromedp.CSS(selector), value))
}

// Type types keys into the element that has the focus.
func (tab *Tab) Type(t *testing.T, keys string) {
	t.Helper()
	tab.do(t, chromedp.KeyEvent(keys))
}

// DropCookies removes all cookies, as the end of a session does.
func (tab *Tab) DropCookies(t *testing.T) {
	t.Helper()
	call(t, tab, network.ClearBrowserCookies, cdp.Empty{})
}

// Text returns the visible text of the first element that a CSS selector finds.
func (tab *Tab) Text(t *testing.T, selector string) string {
	t.Helper()
	return get(t, tab, chromedp.Text(chromedp.CSS(selector)))
}

// Is returns whether an expression is true on the page.
func (tab *Tab) Is(t *testing.T, expression string) bool {
	t.Helper()
	return get(t, tab, chromedp.Evaluate[bool]("!!("+expression+")"))
}

// FirstPaint returns when the page that is shown had its first content on the screen, after the
// request for it began. It waits a while for that; 0: the browser does not tell.
func (tab *Tab) FirstPaint(t *testing.T) time.Duration {
	t.Helper()
	for range 50 {
		ms := get(t, tab, chromedp.Evaluate[float64](`performance.getEntriesByType("paint")
			.filter(e => e.name === "first-contentful-paint").map(e => e.startTime)[0] || 0`))
		if ms > 0 {
			return time.Duration(ms * float64(time.Millisecond))
		}
		tab.do(t, chromedp.Sleep(20*time.Millisecond))
	}
	return 0
}

// Await waits until an expression is true, also on a page that follows, which is then loaded.
func (tab *Tab) Await(t *testing.T, expression string) {
	t.Helper()
	for last := time.Now().Add(patience); time.Now().Before(last); {
		ctx, cancel := context.WithTimeout(tab.ctx, patience)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
			"document.readyState === 'complete' && !!("+expression+")"))
		cancel()
		if err == nil && ok { // a page that is left answers with an error
			return
		}
		tab.do(t, chromedp.Sleep(50*time.Millisecond))
	}
	t.Fatalf("%s never held at %s:\n%s", expression, tab.Path(t), tab.Text(t, "body"))
}
