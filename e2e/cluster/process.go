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

// Process is one replica: a program that can be started, stopped, killed and frozen repeatedly. It
// is safe for concurrent use. Two callers must not start and stop the same process at the same
// time.
type Process struct {
	Name    string
	bin     string
	args    []string
	env     []string
	log     string
	hasHTTP bool // the process serves the API

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

// SetBinary sets the directory of the program for the next start, for example to upgrade.
func (p *Process) SetBinary(bin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bin = filepath.Join(bin, filepath.Base(p.bin))
}

// Set sets settings of the program for the next start, for example another database.
func (p *Process) Set(settings map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.env = slices.DeleteFunc(slices.Clone(p.env), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		_, replaced := settings[name]
		return replaced
	})
	for k, v := range settings {
		p.env = append(p.env, k+"="+v)
	}
}

// Command runs the command carillon with the settings of the process, and returns what it prints.
func (p *Process) Command(ctx context.Context, args ...string) (string, error) {
	p.mu.Lock()
	bin, env := filepath.Join(filepath.Dir(p.bin), "carillon"), slices.Clone(p.env)
	p.mu.Unlock()
	cmd := exec.CommandContext(ctx, bin, args...) //nolint:gosec // a binary of ours
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("carillon %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Start runs the program and waits until it is ready. It appends stderr to the log.
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
	// The child has its own process group, so that Ctrl-C reaches only this process. The child is
	// killed when this process ends. (The kernel means the thread that forked; the runtime keeps
	// its threads.)
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
		_ = cmd.Wait() // the exit code is checked by Stop
		p.mu.Lock()
		if p.cmd == cmd {
			p.cmd, p.http, p.admin = nil, "", ""
		}
		p.mu.Unlock()
		close(exited)
	}()
	return st.Size(), nil
}

// findAddrs reads the log until it has the program's listening addresses.
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
				"%s does not log its addresses: %w\n%s",
				p.Name,
				ctx.Err(),
				p.Tail(10),
			)
		case <-p.ended():
			return fmt.Errorf("%s exited at its start\n%s", p.Name, p.Tail(10))
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
		err := errors.New("no listener")
		if admin != "" {
			if err = get(ctx, admin+"/readyz"); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.Name, err, p.Tail(10))
		case <-p.ended():
			return fmt.Errorf("%s exited before it was ready\n%s", p.Name, p.Tail(10))
		case <-tick.C:
		}
	}
}

// Unready returns the body of /readyz while the process is not ready, and "" when it is.
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

// Kill sends SIGKILL and waits for the end. It returns the instant before the signal. It does
// nothing if the process is not running.
func (p *Process) Kill() time.Time {
	p.mu.Lock()
	cmd, exited := p.cmd, p.exited
	p.mu.Unlock()
	at := time.Now()
	if cmd != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended already
		<-exited
	}
	return at
}

// Pause freezes the process (SIGSTOP). It returns when each of its threads is stopped, because
// threads run until then.
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
	return fmt.Errorf("%s is not stopped after SIGSTOP", p.Name)
}

// stopped reports whether the kernel shows every thread as stopped.
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

// Resume resumes a frozen process (SIGCONT).
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Signal sends a signal.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s is not running", p.Name)
	}
	if err := syscall.Kill(p.cmd.Process.Pid, sig); err != nil {
		return fmt.Errorf("sending %s to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Running reports whether the process is running. A frozen one is.
func (p *Process) Running() bool { return p.PID() != 0 }

// PID returns the process id, or 0 if the process is not running.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// HTTP returns the API's base URL, or "" if there is none.
func (p *Process) HTTP() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.http
}

// Admin returns the base URL of the admin port, or "" if no listener.
func (p *Process) Admin() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.admin
}

// Log returns the path of the log.
func (p *Process) Log() string { return p.log }

// Tail returns the last lines of the log.
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

// LogLine is a line of a process's log.
type LogLine struct {
	At   time.Time // zero if the line says none
	Text string
}

// LinesWith returns the lines of the log that contain a text.
func (p *Process) LinesWith(text string) (lines []LogLine) {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return []LogLine{{Text: err.Error()}}
	}
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, text) {
			continue
		}
		var fields struct {
			Time time.Time `json:"time"`
		}
		_ = json.Unmarshal([]byte(line), &fields) // a panic has no time
		lines = append(lines, LogLine{fields.Time, strings.TrimSpace(line)})
	}
	return lines
}

// ended returns a channel that is closed when the latest run of the program has ended.
func (p *Process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}
