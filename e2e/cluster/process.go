package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/clock"
)

const pollEvery = 20 * time.Millisecond

// Process is one replica: a program that can be started, stopped, killed and frozen, again and
// again. It is safe for concurrent use, but two callers that start and stop the same one get in
// each other's way.
type Process struct {
	Name    string
	bin     string
	args    []string
	env     []string
	log     string
	hasHTTP bool // it serves the API

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
	http   string
	admin  string
}

func newProcess(
	o *Options,
	name, program string,
	hasHTTP bool,
	args []string,
	env ...map[string]string,
) *Process {
	p := &Process{
		Name: name, bin: filepath.Join(o.Bin, program), args: args,
		log: filepath.Join(o.Dir, name+".log"), hasHTTP: hasHTTP,
	}
	all := map[string]string{
		"CARILLON_HTTP_ADDR":              "127.0.0.1:0",
		"CARILLON_ADMIN_ADDR":             "127.0.0.1:0",
		"CARILLON_LOG_FORMAT":             "json",
		"CARILLON_CALLBACK_ALLOW_PRIVATE": "true",
		"CARILLON_AUTH":                   "on",
		"CARILLON_ADMIN_KEY":              client.AdminKey,
		"CARILLON_ENCRYPTION_KEYS":        client.EncryptionKeys,
	}
	for _, e := range env {
		maps.Copy(all, e)
	}
	for k, v := range all {
		p.env = append(p.env, k+"="+v)
	}
	if os.Getenv(raceEnv) != "" {
		p.env = append(p.env, "GORACE=halt_on_error=1")
	}
	slices.Sort(p.env)
	for _, k := range []string{"PATH", "HOME", "TMPDIR", "GOMAXPROCS", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(k); ok {
			p.env = append(p.env, k+"="+v)
		}
	}
	return p
}

// SetBinary makes the next start run the program of another directory: an upgrade.
func (p *Process) SetBinary(bin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bin = filepath.Join(bin, filepath.Base(p.bin))
}

// Start runs the program and waits until it says that it is ready. Stderr is appended to its log.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(ctx); err != nil {
		return err
	}
	return p.WaitReady(ctx)
}

// Launch runs the program and waits until it listens.
func (p *Process) Launch(ctx context.Context) error {
	p.mu.Lock()
	if p.cmd != nil {
		p.mu.Unlock()
		return fmt.Errorf("%s is running", p.Name)
	}
	from, err := p.run()
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	return p.findAddrs(ctx, from)
}

func (p *Process) run() (logSize int64, err error) {
	//nolint:mnd // a log of our own
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	// The child has its own group, so that a Ctrl-C reaches only us, and dies with us, whatever
	// ends us. (The kernel means the thread that forked; the runtime keeps its threads.)
	//nolint:gosec,noctx // a binary of ours; it outlives the call that started it
	cmd := exec.Command(p.bin, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	exited := make(chan struct{})
	p.cmd, p.exited, p.http, p.admin = cmd, exited, "", ""
	go func() {
		_ = cmd.Wait() // how it ended is seen by ExitCode
		p.mu.Lock()
		if p.cmd == cmd {
			p.cmd, p.http, p.admin = nil, "", ""
		}
		p.mu.Unlock()
		close(exited)
	}()
	return st.Size(), nil
}

// findAddrs reads the log until it tells where the program listens.
func (p *Process) findAddrs(ctx context.Context, from int64) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		httpAddr, admin := p.scan(from)
		if admin != "" && (httpAddr != "" || !p.hasHTTP) {
			p.mu.Lock()
			if p.cmd != nil {
				p.admin = "http://" + admin
				if p.hasHTTP {
					p.http = "http://" + httpAddr
				}
			}
			p.mu.Unlock()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf(
				"%s does not say where it listens: %w\n%s",
				p.Name,
				ctx.Err(),
				p.Tail(10),
			)
		case <-p.ended():
			return fmt.Errorf("%s ended at its start\n%s", p.Name, p.Tail(10))
		case <-tick.C:
		}
	}
}

func (p *Process) scan(from int64) (httpAddr, admin string) {
	b, err := os.ReadFile(p.log)
	if err != nil || int64(len(b)) < from {
		return "", ""
	}
	sc := bufio.NewScanner(bytes.NewReader(b[from:]))
	for sc.Scan() {
		var line struct{ Message, Addr string }
		if json.Unmarshal(sc.Bytes(), &line) != nil {
			continue
		}
		switch line.Message {
		case "http listening":
			httpAddr = line.Addr
		case "admin listening":
			admin = line.Addr
		}
	}
	return httpAddr, admin
}

// WaitReady waits until /readyz answers 200.
func (p *Process) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		admin := p.Admin()
		err := errors.New("it does not listen")
		if admin != "" {
			if err = get(ctx, admin+"/readyz"); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.Name, err, p.Tail(10))
		case <-p.ended():
			return fmt.Errorf("%s ended before it was ready\n%s", p.Name, p.Tail(10))
		case <-tick.C:
		}
	}
}

// Unready returns what /readyz says while it is not ready, "" when it is.
func (p *Process) Unready(ctx context.Context) string {
	if err := get(ctx, p.Admin()+"/readyz"); err != nil {
		return err.Error()
	}
	return ""
}

// Stop sends SIGTERM and waits for the end. An exit code other than 0 is an error.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	cmd, exited := p.cmd, p.exited
	p.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-exited:
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w\n%s", p.Name, ctx.Err(), p.Tail(10))
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s stopped with code %d\n%s", p.Name, code, p.Tail(10))
	}
	return nil
}

// Kill sends SIGKILL and waits for the end. It returns the instant before the signal. A process
// that does not run stays so.
func (p *Process) Kill() time.Time {
	p.mu.Lock()
	cmd, exited := p.cmd, p.exited
	p.mu.Unlock()
	at := time.Now()
	if cmd != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // gone already: what was wanted
		<-exited
	}
	return at
}

// Pause freezes the process (SIGSTOP), and returns when each of its threads stands still: until
// then it goes on.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for range 200 {
		if stopped(p.PID()) {
			return nil
		}
		clock.Pause(context.Background(), 5*time.Millisecond)
	}
	return fmt.Errorf("%s does not stand still", p.Name)
}

// stopped tells whether the kernel says of every thread that it is stopped.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err != nil || !bytes.HasPrefix(b[bytes.LastIndexByte(b, ')')+1:], []byte(" T")) {
			return false
		}
	}
	return true
}

// Resume wakes a frozen process (SIGCONT).
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Signal sends a signal.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s does not run", p.Name)
	}
	if err := syscall.Kill(p.cmd.Process.Pid, sig); err != nil {
		return fmt.Errorf("sending %s to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Running tells whether it runs (a frozen one does).
func (p *Process) Running() bool { return p.PID() != 0 }

// PID returns the process id, 0 where it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// HTTP returns the API's base URL, "" where there is none.
func (p *Process) HTTP() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.http
}

// Admin returns the base URL of the admin port, "" where it does not listen.
func (p *Process) Admin() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.admin
}

// Log returns the path of its log.
func (p *Process) Log() string { return p.log }

// Tail returns the last lines of its log.
func (p *Process) Tail(lines int) string {
	const most = 64 << 10
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// ended returns a channel that is closed when the program that runs, or ran last, has ended.
func (p *Process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}
