package callback_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/timer"
)

// answering serves keep-alive requests of fixed length as cheaply as possible, because the caller
// is measured.
func answering(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				buf := make([]byte, 16<<10)
				for {
					if _, err := c.Read(buf); err != nil { // one write of the caller is one request
						return
					}
					if _, err := io.WriteString(
						c,
						"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
					); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/hook"
}

// cpu returns the CPU time of the process so far, including the receiver's.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bare returns a call with the standard library's client and as many headers as a callback has.
func bare(b *testing.B, body string) func() error {
	b.Helper()
	url := answering(b)
	client := &http.Client{Transport: &http.Transport{}}
	b.Cleanup(client.CloseIdleConnections)
	return func() error {
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return err
		}
		for _, name := range []string{"A", "B", "C", "D", "E", "F", "G", "H"} {
			req.Header.Set("X-"+name, "0123456789012345")
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return err
	}
}

// BenchmarkOverhead measures the cost of a callback above a call by the standard library's client:
// overhead-cpu-ns/op, with a goal below 30,000. It is negative where connections of plain HTTP cost
// less than the standard library's. Both are called alternately in one run, so that other load
// affects both equally. CPU is that of the process, including the receiver, which is the
// same for both. One op is one call of each. Only results of an idle machine count.
func BenchmarkOverhead(b *testing.B) {
	const body = `{"hello": "world"}`
	ring := newKeyring(b)
	key, err := signing.NewKey(signing.HMAC)
	require.NoError(b, err)
	signer, err := signing.NewSigner(key)
	require.NoError(b, err)
	for _, kind := range []struct {
		name   string
		change func(r *callback.Request)
	}{
		{"plain", func(*callback.Request) {}},
		{"signed", func(r *callback.Request) { r.Signer = signer }},
		{"policy of its own", func(r *callback.Request) { r.Egress = rules(b, "127.0.0.1:*") }},
		{"everything", func(r *callback.Request) {
			r.Signer = signer
			r.Target.Templates, r.Target.Body = true, `{"fire": "{{fire.id}}", "due": "{{due}}"}`
			r.Target.Success = &timer.Success{Body: "ok"}
			r.Target.SecretHeaders = map[string]timer.Sealed{"Authorization": ring.Seal(encryption.NewSecret("Bearer hunter2"), callback.SecretBinding("shop"))}
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			c, err := callback.NewHTTP(
				callback.HTTPOptions{
					AllowPrivate: true,
					NetOptions:   callback.NetOptions{Secrets: ring},
				},
			)
			require.NoError(b, err)
			b.Cleanup(c.Close)
			r := requestTo(answering(b))
			r.App, r.Target.Body = "shop", body
			r.Target.Headers = map[string][]string{"Content-Type": {"application/json"}}
			kind.change(r)
			compare(b, bare(b, body), func() error {
				if got := c.Call(b.Context(), r); got.Class != callback.Success {
					return errors.New(got.Error)
				}
				return nil
			})
		})
	}
}

// compare makes b.N calls of each, alternating every few hundred, and reports the CPU times and
// their difference.
func compare(b *testing.B, bare, ours func() error) {
	b.Helper()
	const turn = 200
	calls := [2]func() error{bare, ours}
	for _, call := range calls { // each has its own connection
		require.NoError(b, call())
	}
	var took [2]time.Duration
	b.ResetTimer()
	for done, round := 0, 0; done < b.N; done, round = done+turn, round+1 {
		for k := range calls {
			which := (k + round) % len(calls) // so that neither always comes second
			before := cpu(b)
			for range min(turn, b.N-done) {
				if err := calls[which](); err != nil {
					b.Fatal(err)
				}
			}
			took[which] += cpu(b) - before
		}
	}
	n := float64(b.N)
	b.ReportMetric(float64(took[0])/n, "bare-cpu-ns/op")
	b.ReportMetric(float64(took[1])/n, "callback-cpu-ns/op")
	b.ReportMetric(float64(took[1]-took[0])/n, "overhead-cpu-ns/op")
}
