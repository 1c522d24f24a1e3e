package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-timer/carillon/libs/clock"
)

// fullDisk fills MariaDB's disk until the server refuses inserts (error 1114). Then it makes the
// server abort: the server aborts if it cannot write, else a signal ends it.
func fullDisk(env *Environment) error {
	dir := env.srv.dirs[mysqlServer]
	ballast := filepath.Join(dir, "ballast")
	err := env.inject(
		"MariaDB's disk is full, and it aborts",
		outageTarget,
		func(f *Fault) (string, error) {
			refused, err := env.untilFull(ballast)
			if err != nil {
				return "", err
			}
			clock.Pause(env.ctx, 10*time.Second)
			aborted := "it aborted by itself"
			if _, err := env.srv.pid(mysqlServer); err == nil {
				aborted = "it got SIGABRT"
				if err := env.srv.signal(env.ctx, mysqlServer, syscall.SIGABRT); err != nil {
					return "", err
				}
			}
			clock.Pause(env.ctx, 5*time.Second)
			if err := os.Remove(ballast); err != nil {
				return "", fmt.Errorf("freeing the disk: %w", err)
			}
			if err := env.srv.up(env.ctx, mysqlServer); err != nil {
				return "", err
			}
			f.markEnd()
			told := env.inLogs("is full")
			if told+refused == 0 {
				return "", errors.New("no client got error 1114")
			}
			return fmt.Sprintf(
				"error 1114 for the harness %d times, for services at least %d times; %s",
				refused,
				told,
				aborted,
			), nil
		},
	)
	clock.Pause(env.ctx, env.catchUpPause())
	return err
}

// fill writes a file until its disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("filling a disk: %w", err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; block = block[:len(block)/2] {
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("filling a disk: %w", err)
		}
	}
	return nil
}

// untilFull fills the disk and inserts rows until the server answers error 1114, or aborts. The
// services then get the same error. It returns the number of errors.
func (env *Environment) untilFull(ballast string) (refused int, err error) {
	ctx, cancel := context.WithTimeout(env.ctx, 30*time.Second)
	defer cancel()
	if _, err := env.db.ExecContext(
		ctx,
		"CREATE TABLE filler (id INT PRIMARY KEY AUTO_INCREMENT, x LONGBLOB) ENGINE=InnoDB",
	); err != nil {
		return 0, fmt.Errorf("creating a table: %w", err)
	}
	if err := fill(ballast); err != nil {
		return 0, err
	}
	for {
		_, err := env.db.ExecContext(ctx, "INSERT INTO filler (x) VALUES (REPEAT('x', 100000))")
		if isFull(err) {
			return 1, nil
		}
		if err != nil {
			_, gone := env.srv.pid(mysqlServer)
			if gone == nil && ctx.Err() != nil {
				return 0, fmt.Errorf("filling a table: %w", err)
			}
			if gone != nil {
				return 0, nil // the server aborted at once
			}
		}
	}
}

func isFull(err error) bool {
	const tableFull, diskFull = 1114, 1021
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == tableFull || e.Number == diskFull)
}

// inLogs counts the lines with a text in the services' logs.
func (env *Environment) inLogs(text string) int {
	n := 0
	for _, p := range env.c.Processes() {
		n += linesWith(p.Log(), text)
	}
	return n
}

// linesWith counts the lines of a file with a text, 0 if there is no such file.
func linesWith(path, text string) (n int) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if strings.Contains(sc.Text(), text) {
			n++
		}
	}
	return n
}

// fullNodeDisk moves a node to its own small disk and fills that for d. The node is moved by a stop
// and a start, which other scenarios judge.
func fullNodeDisk(k nodeKind, d time.Duration) func(*Environment) error {
	return func(env *Environment) (err error) {
		n, err := env.pick(k)
		if err != nil {
			return err
		}
		disk, back, err := env.srv.toSmallDisk(env.ctx, n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, back()) }()
		clock.Pause(env.ctx, env.recoveryWait())
		ballast := filepath.Join(disk, "ballast")
		err = env.inject(
			"the disk of one "+k.called+" is full",
			nodeTarget,
			func(*Fault) (string, error) {
				return "no byte is free", fill(ballast)
			},
		)
		if err != nil {
			return err
		}
		clock.Pause(env.ctx, d)
		err = env.inject(
			"room on the disk of the "+k.called,
			nodeTarget,
			func(*Fault) (string, error) {
				told := linesWith(disk+".log", "No space left on device")
				if err := os.Remove(ballast); err != nil {
					return "", fmt.Errorf("freeing the disk: %w", err)
				}
				serves := "it serves"
				if _, err := env.srv.nodePID(n); err != nil {
					serves = "it had ended, and was started again"
					if err := env.srv.startNodes(env.ctx, n); err != nil {
						return "", err
					}
				}
				return fmt.Sprintf(
					"its log has %d lines about the full disk; %s",
					told,
					serves,
				), nil
			},
		)
		clock.Pause(env.ctx, env.recoveryWait())
		return err
	}
}

// nodeDiskSize is the size of a node's small disk.
const nodeDiskSize = "size=400m"

// toSmallDisk stops a node, moves its data to a memory disk and starts it there. It needs the right
// to mount. back moves the node to its former disk.
func (s *servers) toSmallDisk(
	ctx context.Context,
	n node,
) (disk string, back func() error, err error) {
	disk = filepath.Join(s.dirs[n.server], n.name)
	former := disk + ".former"
	if err := s.stopNodes(ctx, n); err != nil {
		return "", nil, err
	}
	err = errors.Join(os.Rename(disk, former), os.Mkdir(disk, 0o750))
	if err != nil {
		return "", nil, fmt.Errorf("moving the data of %s: %w", n.name, err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, nodeDiskSize); err != nil {
		return "", nil, errors.Join(
			fmt.Errorf("mounting a memory disk (needs root): %w", err),
			os.Remove(disk), os.Rename(former, disk), s.startNodes(ctx, n),
		)
	}
	back = func() error {
		ctx := context.WithoutCancel(ctx)
		if err := s.stopNodes(ctx, n); err != nil {
			return err
		}
		if err := errors.Join(
			os.RemoveAll(former),
			os.CopyFS(former, os.DirFS(disk)),
			syscall.Unmount(disk, 0),
			os.Remove(disk),
			os.Rename(former, disk),
		); err != nil {
			return fmt.Errorf("moving the data of %s back: %w", n.name, err)
		}
		return s.startNodes(ctx, n)
	}
	if err := os.CopyFS(disk, os.DirFS(former)); err != nil {
		return "", nil, fmt.Errorf("moving the data of %s: %w", n.name, errors.Join(err, back()))
	}
	if err := s.startNodes(ctx, n); err != nil {
		return "", nil, errors.Join(err, back())
	}
	return disk, back, nil
}
