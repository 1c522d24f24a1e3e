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
		f, err := os.Open(p.Log())
		if err != nil {
			continue
		}
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			if strings.Contains(sc.Text(), text) {
				n++
			}
		}
		_ = f.Close()
	}
	return n
}
