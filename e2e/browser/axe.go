package browser

import (
	_ "embed"
	"testing"

	"github.com/chromedp/chromedp"
)

//go:embed testdata/axe.min.js
var axe string

// runAxe checks the page by every rule. preload would request style sheets again.
const runAxe = `axe.run(document, {preload: false, resultTypes: ["violations"]}).then(r =>
	r.violations.flatMap(v => v.nodes.map(n =>
		v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)))`

// Violations returns what axe-core finds on the page, and whether it is wider than the view.
func (tab *Tab) Violations(t *testing.T) []string {
	t.Helper()
	tab.do(t, chromedp.Evaluate[chromedp.Void](axe+";0"))
	found := get(t, tab, chromedp.Evaluate[[]string](runAxe, chromedp.EvalAwaitPromise))
	wide := get(t, tab, chromedp.Evaluate[string](`(() => {
		const view = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth <= view) return "";
		const widest = [...document.body.querySelectorAll("*")].filter(
			e => e.getBoundingClientRect().right > view && !e.closest(".scroll"));
		return widest.slice(0, 3).map(e => e.outerHTML.slice(0, 120)).join(" | ");
	})()`))
	if wide != "" {
		found = append(found, "wider than the view: "+wide)
	}
	return found
}
