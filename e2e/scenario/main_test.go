package scenario

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// parallelScenarios is more than the CPUs, because scenarios mostly wait. Ten at once overloaded two
// slow cores, so that the store did not answer in time.
const parallelScenarios = "6"

// expandAhead of the shared clusters is short, so that the migrators expand during the scenarios. A
// scenario's own cluster has the default.
const expandAhead = 15 * time.Second

// openNamespace is a Pulsar namespace to which timers of the shared clusters may publish.
const openNamespace = "public/default"

// binDir has the programs under test, runDir the logs and data of the run.
var binDir, runDir string

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(parallelScenarios)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run()
	}
	var err error
	if runDir, err = os.MkdirTemp(failures(), time.Now().UTC().Format("150405-")); err != nil {
		fmt.Fprintln(os.Stderr, "creating the log directory:", err)
		return 1
	}
	if binDir = os.Getenv("CARILLON_BIN"); binDir == "" {
		binDir = filepath.Join(runDir, "bin")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if err := cluster.Build(ctx, binDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	for _, r := range runners {
		r.close()
	}
	if os.Getenv("CARILLON_BIN") == "" {
		_ = os.RemoveAll(binDir) // large, and quick to build again
	}
	if code == 0 && os.Getenv("CARILLON_E2E_KEEP") == "" {
		_ = os.RemoveAll(runDir)
	} else {
		fmt.Fprintln(os.Stderr, "logs and data of the processes:", runDir)
	}
	return code
}

// failures returns the directory for logs, which git ignores.
func failures() string {
	dir, err := filepath.Abs("failures")
	if err != nil {
		dir = "failures"
	}
	_ = os.MkdirAll(dir, 0o750) //nolint:mnd // what is wrong with it shows at once
	return dir
}

// runner starts clusters of one kind.
type runner struct {
	name        string
	host        string // where endpoints listen; empty: 127.0.0.1
	indivisible bool   // its processes cannot be killed and started one by one
	start       func(ctx context.Context, o cluster.Options) (cluster.Cluster, func(), error)

	mu     sync.Mutex
	shared map[bool]*sharedCluster // by whether scenarios may inject faults
}

// sharedCluster is a deployment that several scenarios use.
type sharedCluster struct {
	once  sync.Once
	c     cluster.Cluster
	end   func()
	err   error
	fault sync.Mutex // scenarios that inject faults take turns
}

var runners = []*runner{
	{name: "allinone", start: startAllInOne},
	{name: "real", start: startReal},
}

// Kubernetes runs only on request.
func init() { //nolint:gochecknoinits // every scenario uses the list of runners
	if os.Getenv("CARILLON_E2E_KUBE") != "" {
		runners = append(
			runners,
			&runner{
				name:        "kube",
				start:       startKube,
				indivisible: true,
				host:        os.Getenv("CARILLON_E2E_HOST"),
			},
		)
	}
}

// share returns the cluster that scenarios share. The first caller starts it.
func (r *runner) share(broken bool) *sharedCluster {
	r.mu.Lock()
	if r.shared == nil {
		r.shared = make(map[bool]*sharedCluster)
	}
	s := r.shared[broken]
	if s == nil {
		s = new(sharedCluster)
		r.shared[broken] = s
	}
	r.mu.Unlock()
	s.once.Do(func() {
		o := cluster.Options{
			Replicas: 2,
			Env: map[string]string{
				"CARILLON_EXPAND_AHEAD":    expandAhead.String(),
				"CARILLON_CALLBACK_TOPICS": openNamespace,
			},
		}
		name := r.name
		if broken {
			name, o.Env = name+"-faults", nil
		}
		s.c, s.end, s.err = r.run(name, o)
	})
	return s
}

// run starts a cluster in its own directory below the run's.
func (r *runner) run(name string, o cluster.Options) (cluster.Cluster, func(), error) {
	o.Bin, o.Dir = binDir, filepath.Join(runDir, name)
	if err := os.MkdirAll(o.Dir, 0o750); err != nil { //nolint:mnd // ours alone
		return nil, nil, fmt.Errorf("creating the log directory: %w", err)
	}
	return r.start(context.Background(), o)
}

func (r *runner) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.shared {
		if s.end != nil {
			s.end()
		}
	}
}

func startAllInOne(ctx context.Context, o cluster.Options) (cluster.Cluster, func(), error) {
	began := time.Now()
	c, err := cluster.StartAllInOne(ctx, o)
	machine.observeStart(time.Since(began), 3*time.Second)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	return c, c.Close, nil
}
