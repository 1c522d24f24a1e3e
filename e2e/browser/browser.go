package browser

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// programs are the names under which Chromium is installed.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// RemoteHost is a name of this host. To browsers it is not local, other than 127.0.0.1.
const RemoteHost = "carillon.test"

// Browser is a running Chromium.
type Browser struct{ ctx context.Context } //nolint:containedctx // chromedp's handle of the browser

// turn is held by the test that has a browser. Several at once take all cores of a small machine, and
// the servers of other tests do not answer in time.
var turn sync.Mutex //nolint:gochecknoglobals // it guards the machine

// Start starts a browser that ends with the test. It waits while another test of this process has
// one, so a test starts one at the most. Without Chromium the test is skipped, or fails
// where CARILLON_TEST_REQUIRE names chromium.
func Start(t *testing.T) *Browser {
	t.Helper()
	var program string
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		if slices.Contains(strings.Split(os.Getenv("CARILLON_TEST_REQUIRE"), ","), "chromium") {
			t.Fatal("CARILLON_TEST_REQUIRE names chromium, but it is not installed")
		}
		t.Skip("UNTESTED in a browser: chromium is not installed")
	}
	turn.Lock()
	t.Cleanup(turn.Unlock)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program),
		chromedp.UserDataDir(t.TempDir()),
		// Chromium has no sandbox for root, and none in most containers. It opens test pages only.
		chromedp.NoSandbox,
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true),
		// The provider of sign-ins has a font there, for which its pages would wait without a network.
		chromedp.Flag(
			"host-resolver-rules",
			"MAP *.googleapis.com ~NOTFOUND, MAP "+RemoteHost+" 127.0.0.1",
		),
	)
	// The test's context ends before its cleanups, and Chromium is to close in order.
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	t.Cleanup(closeBrowser)
	require.NoError(t, chromedp.Do(ctx), "starting %s", program)
	return &Browser{ctx}
}
