package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// site is the page over an API in this process. Its editor and its forms are answered late.
type site struct {
	*apitest.Fixture
	tab   *Tab
	down  atomic.Int64 // the status of all answers; 1: there are none; 0: those of the page
	late  atomic.Int64 // of answers to what somebody types or sends, in nanoseconds
	sent  atomic.Int64 // forms
	syncs atomic.Int64 // requests of the editor at this moment
	most  atomic.Int64 // of those at once
}

func openSite(t *testing.T) *site {
	t.Helper()
	s := &site{Fixture: apitest.Setup(t)}
	p, err := ui.New(ui.Options{API: s.Api.Handler(), Keyless: true, Now: time.Now})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch down := int(s.down.Load()); down {
		case 0:
		case 1:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(down)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/sync") {
			s.most.Store(max(s.most.Load(), s.syncs.Add(1)))
			defer s.syncs.Add(-1)
		} else if r.Method == http.MethodPost {
			s.sent.Add(1)
		}
		if r.Method == http.MethodPost {
			late := time.NewTimer(time.Duration(s.late.Load()))
			defer late.Stop()
			<-late.C
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.tab = Start(t).Open(t, server.URL)
	return s
}

// typing is a script that types into a field as a person does. into selects a part of its value
// first, all for "".
const typing = `(selector, into, text) => {
	const field = document.querySelector(selector);
	field.focus();
	const at = into ? field.value.indexOf(into) : 0;
	field.setSelectionRange(at, into ? at + into.length : field.value.length);
	document.execCommand("insertText", false, text);
}`

// TestBothSidesAreTyped types on one side of the editor, and a moment later on the other. Nothing of
// it may be lost, however the requests of the page and their answers lie between. The moments are
// those that lost something.
func TestBothSidesAreTyped(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	form := `type("textarea[name=body]", "", "typed in the form")`
	yaml := `type("textarea[name=yaml]", "priority: normal", "priority: high")`
	n := 0
	for _, late := range []time.Duration{0, 300 * time.Millisecond} {
		for _, gap := range []int{100, 300, 520} {
			for _, order := range [][2]string{{form, yaml}, {yaml, form}} {
				n++
				name := fmt.Sprintf("t%d", n)
				made := s.Create(t, http.StatusCreated, strings.Replace(apitest.TimerWith(
					`{"kind":"interval","every":"1h"}`,
					`{"kind":"http","url":"https://example.com/","method":"POST"}`, ""),
					`"bill"`, `"`+name+`"`, 1))
				s.late.Store(int64(late))
				s.tab.Go(t, "/ui/apps/shop/timers/"+made.ID+"/edit")
				require.True(t, s.tab.Is(t, fmt.Sprintf(
					`(type => { %s; setTimeout(() => { %s; window.typed = true }, %d); return true })(%s)`,
					order[0],
					order[1],
					gap,
					typing,
				)))
				s.tab.Await(t, `window.typed &&
					document.querySelector("[name=base]").value.includes("typed in the form") &&
					document.querySelector("[name=base]").value.includes("priority: high")`)
				require.True(
					t,
					s.tab.Is(t, `document.querySelector("[name=priority]").value == "high" &&
					document.querySelector("[name=yaml]").value.includes("typed in the form")`),
					"each side has followed the other",
				)
				// One more field, saved before the next request.
				require.True(t, s.tab.Is(t, fmt.Sprintf(
					`(type => { type("[name=timeout]", "", "7s"); return true })(%s)`, typing)))
				s.tab.Follow(t, "button[value=save]")
				require.Contains(t, s.tab.Path(t), "did=save", "late %s, gap %d", late, gap)
				now, err := s.Store.TimerByName(t.Context(), "shop", name)
				require.NoError(t, err)
				require.Equal(t, "typed in the form", now.Definition.Target.Body)
				require.Equal(t, timer.PriorityHigh, now.Definition.Priority)
				require.Equal(t, timer.Duration(7*time.Second), now.Definition.Retry.Timeout)
			}
		}
	}
	require.EqualValues(t, 1, s.most.Load(), "requests of the editor at once")
	require.Empty(t, s.tab.Complaints())
}

// TestAnotherKindInTheForm chooses another kind of schedule in the form of a new timer, and waits for
// the YAML before the next field and before it saves.
func TestAnotherKindInTheForm(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	s.tab.Go(t, "/ui/apps/shop/timers/new")
	s.tab.Fill(t, "input[name=name]", "hourly")
	s.tab.Fill(t, "input[name=url]", "https://example.com/")
	choose := func(kind string) {
		require.True(t, s.tab.Is(t, fmt.Sprintf(`(() => {
			const list = document.querySelector("select[name=kind]");
			list.value = %q;
			return list.dispatchEvent(new Event("input", { bubbles: true }));
		})()`, kind)))
		s.tab.Await(
			t,
			fmt.Sprintf(`document.querySelector("[name=base]").value.includes("kind: %s")`, kind),
		)
	}
	choose("interval")
	s.tab.Fill(t, "input[name=every]", "1h")
	s.tab.Await(t, `document.querySelector("[name=yaml]").value.includes("every: 1h")`)
	require.True(t, s.tab.Is(t, `!document.querySelector("[name=yaml]").value.includes("specs")`))
	choose("cron")
	s.tab.Await(t, `document.querySelector("[name=yaml]").value.includes("0 9 * * MON-FRI")`)
	choose("interval")
	s.tab.Await(t, `document.querySelector("#preview").innerText.includes("every 1h")`)
	s.tab.Fill(t, "input[name=timeout]", "7s")
	s.tab.Await(t, `document.querySelector("[name=yaml]").value.includes("timeout: 7s")`)
	s.tab.Follow(t, "button[value=save]")
	require.Contains(t, s.tab.Path(t), "did=save")
}

// TestNoAnswerIsSaid checks that a page whose server does not answer says so, until it does.
func TestNoAnswerIsSaid(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	const silent = `document.querySelector("#no-answer").innerText.includes("No answer from the server since")`
	answered := func() {
		s.down.Store(0)
		s.tab.Await(t, `document.querySelector("#no-answer").innerText == ""`)
	}
	s.tab.Go(t, "/ui/apps/shop/overview")
	for _, down := range []int64{1, http.StatusBadGateway} {
		s.down.Store(down)
		s.tab.Await(t, silent)
		answered()
	}
	require.NotEmpty(t, s.tab.Complaints(), "what the browser says of it")
	s.tab.Go(t, "/ui/apps/shop/timers/new")
	s.down.Store(1)
	s.tab.Fill(t, "input[name=url]", "https://example.com/")
	s.tab.Await(t, silent)
	require.Empty(t, s.tab.Violations(t))
	answered()
	s.tab.Await(t, `document.querySelector("[name=yaml]").value.includes("https://example.com/")`)
	s.down.Store(1)
	s.tab.Click(t, "button[value=test]")
	s.tab.Await(t, silent)
}

// TestGonePagesAreLoadedAgain checks that a page whose part is gone, or no longer for its viewer, does
// not show the last of it for ever.
func TestGonePagesAreLoadedAgain(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	for _, gone := range []int64{http.StatusForbidden, http.StatusNotFound} {
		s.down.Store(0)
		s.tab.Go(t, "/ui/apps/shop/overview")
		require.True(t, s.tab.Is(t, `window.before = true`))
		s.down.Store(gone)
		s.tab.Await(t, `!window.before`)
	}
}

// TestHiddenPagesAreNotRefreshed checks that a page which nobody sees asks for nothing, and goes on
// when somebody sees it again.
func TestHiddenPagesAreNotRefreshed(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	s.tab.Go(t, "/ui/operations")
	require.True(t, s.tab.Is(t, `(() => {
		Object.defineProperty(document, "visibilityState", {
			get: () => window.seen ? "visible" : "hidden",
		});
		document.addEventListener("htmx:beforeRequest", e => {
			window.asked = e.defaultPrevented ? "not" : "yes";
		});
		return true;
	})()`))
	s.tab.Await(t, `window.asked == "not"`)
	require.True(t, s.tab.Is(t, `window.seen = true`))
	s.tab.Await(t, `window.asked == "yes"`)
	require.Empty(t, s.tab.Complaints())
}

// TestAFormIsSentOnce clicks twice, while the answer is awaited, on what makes a key, and on what
// saves a timer, in a form with a field of the name method.
func TestAFormIsSentOnce(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	s.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	twice := func(button string) {
		require.True(t, s.tab.Is(t, fmt.Sprintf(`(() => {
			const button = document.querySelector(%q);
			setTimeout(() => button.click(), 0);
			setTimeout(() => button.click(), 500);
			return true;
		})()`, button)))
	}
	s.tab.Go(t, "/ui/apps/shop/timers/new")
	s.tab.Fill(t, "input[name=name]", "hourly")
	s.tab.Fill(t, "input[name=url]", "https://example.com/")
	s.tab.Await(t, `document.querySelector("[name=base]").value.includes("https://example.com/")`)
	require.True(t, s.tab.Is(t, `document.querySelector("#editor [name=method]") !== null`))
	s.late.Store(int64(2 * time.Second))
	twice("button[value=save]")
	s.tab.Await(t, `location.search.includes("did=save")`)
	require.EqualValues(t, 1, s.sent.Swap(0))

	s.tab.Go(t, "/ui/apps/shop/app")
	s.tab.Fill(t, "form[action$='/app/keys'] [name=name]", "robot")
	const button = "form[action$='/app/keys'] button"
	twice(button)
	s.tab.Await(t, `location.pathname.endsWith("/made-key")`)
	require.EqualValues(t, 1, s.sent.Load())
	s.tab.Go(t, "/ui/apps/shop/app")
	s.tab.Fill(t, "form[action$='/app/keys'] [name=name]", "another")
	s.tab.Follow(t, button)
	require.EqualValues(t, 2, s.sent.Load())
}

// TestTooLargeIsNotSent types more than the server takes. It stays on the screen, and is saved once it
// is short enough.
func TestTooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	s.tab.Go(t, "/ui/apps/shop/timers/new")
	const said = `document.querySelector("#signed-out [role=alert]")`
	limit := func(bytes int) {
		require.True(t, s.tab.Is(t, fmt.Sprintf(
			`document.querySelector("#editor").dataset.limit = "%d"`, bytes)))
	}
	limit(100)
	s.tab.Fill(t, "input[name=name]", "large")
	s.tab.Fill(t, "input[name=url]", "https://example.com/")
	s.tab.Await(t, said)
	require.Contains(t, s.tab.Text(t, "#signed-out"), "more than the page takes")
	s.tab.Click(t, "button[value=save]")
	s.tab.Click(t, "button[value=test]")
	require.True(t, s.tab.Is(t, `document.querySelector("input[name=name]").value === "large"`))
	require.Zero(t, s.sent.Load())
	require.Zero(t, s.most.Load())

	limit(ui.MaxFormBytes)
	s.tab.Fill(t, "input[name=timeout]", "7s")
	s.tab.Await(t, "!"+said)
	s.tab.Follow(t, "button[value=save]")
	require.Contains(t, s.tab.Path(t), "did=save")
	require.Empty(t, s.tab.Complaints())
}

// TestKeys checks that keys do nothing behind the help, and that a g is forgotten after a while.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	s.tab.Go(t, "/ui/apps/shop/timers")
	press := func(key string, at int) {
		require.True(t, s.tab.Is(t, fmt.Sprintf(`(() => {
			const e = new KeyboardEvent("keydown", { key: %q, bubbles: true });
			Object.defineProperty(e, "timeStamp", { value: %d });
			return document.body.dispatchEvent(e);
		})()`, key, at)))
	}
	press("?", 1000)
	s.tab.Await(t, `document.querySelector("#help").open`)
	press("n", 1100)
	press("g", 1200)
	press("o", 1300)
	require.True(t, s.tab.Is(t, `document.querySelector("#help").open`))
	require.True(t, s.tab.Is(t, `(document.querySelector("#help").close(), true)`))
	press("g", 2000)
	press("o", 4001) // too late
	press("x", 4100)
	press("g", 5000)
	press("f", 6999)
	s.tab.Await(t, `location.pathname.endsWith("/fires")`)
}
