package browser

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/axe.min.js
var axe string

// runAxe checks the page by the given rules, or by every rule. preload would request style sheets
// again.
const runAxe = `axe.run(document, {preload: false, resultTypes: ["violations"], ...%s}).then(r =>
	r.violations.flatMap(v => v.nodes.map(n =>
		v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)))`

// Contrast is the rule about the contrast of colors, the only one that a theme can break.
const Contrast = "color-contrast"

// Violations returns what axe-core finds on the page by the rules, or by every rule, and whether the
// page is wider than the view.
func (tab *Tab) Violations(t *testing.T, rules ...string) []string {
	t.Helper()
	if !tab.Is(t, "window.axe !== undefined") {
		tab.do(t, chromedp.Evaluate[chromedp.Void](axe+";0"))
	}
	only := "{}"
	if len(rules) > 0 {
		names, err := json.Marshal(rules)
		require.NoError(t, err)
		only = fmt.Sprintf("{runOnly: %s}", names)
	}
	found := get(t, tab,
		chromedp.Evaluate[[]string](fmt.Sprintf(runAxe, only), chromedp.EvalAwaitPromise))
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
