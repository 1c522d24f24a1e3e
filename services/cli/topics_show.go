package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/carillon-timer/carillon/libs/bus/pulsartopics"
)

// table prints rows of columns; the first row is the header.
func (in *topicsCommand) table(rows [][]string) error { return printTable(in.out, rows) }

func printTable(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func (in *topicsCommand) list(ctx context.Context) error {
	topics, err := in.topics.List(ctx)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	rows := [][]string{
		{"TOPIC", "MESSAGE", "SCHEMA", "PARTITIONS", "IN/S", "OUT/S", "BYTES", "WAITING"},
	}
	for i := range topics {
		t := &topics[i]
		if t.Missing {
			rows = append(
				rows,
				[]string{
					string(t.Name),
					t.Message,
					"TOPIC IS MISSING: run carillon setup, or wait for its next message",
				},
			)
			continue
		}
		waiting := make([]string, len(t.Subscriptions))
		for i, s := range t.Subscriptions {
			waiting[i] = fmt.Sprintf("%s=%d", s.Name, s.Backlog)
		}
		rows = append(rows, []string{
			string(
				t.Name,
			),
			t.Message,
			t.Schema,
			strconv.Itoa(t.Partitions),
			fmt.Sprintf("%.1f", t.InPerSecond),
			fmt.Sprintf("%.1f", t.OutPerSecond),
			strconv.FormatInt(t.Bytes, 10),
			strings.Join(waiting, " "),
		})
	}
	return in.table(rows)
}

func (in *topicsCommand) backlog(ctx context.Context) error {
	topics, err := in.describe(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"TOPIC", "SUBSCRIPTION", "WAITING", "DELIVERED, NOT ACKNOWLEDGED"}}
	for i := range topics {
		for _, s := range topics[i].Subscriptions {
			rows = append(
				rows,
				[]string{
					string(topics[i].Name),
					s.Name,
					strconv.FormatInt(s.Backlog, 10),
					strconv.FormatInt(s.Unacked, 10),
				},
			)
		}
	}
	return in.table(rows)
}

func (in *topicsCommand) subscriptions(ctx context.Context) error {
	topics, err := in.describe(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{
		{
			"TOPIC",
			"SUBSCRIPTION",
			"TYPE",
			"CONSUMERS",
			"WAITING",
			"OUT/S",
			"REDELIVERED/S",
			"LAST ACKNOWLEDGED",
		},
	}
	for i := range topics {
		for _, s := range topics[i].Subscriptions {
			rows = append(rows, []string{
				string(
					topics[i].Name,
				),
				s.Name,
				s.Type,
				strconv.Itoa(s.Consumers),
				strconv.FormatInt(s.Backlog, 10),
				fmt.Sprintf("%.1f", s.OutPerSecond),
				fmt.Sprintf("%.1f", s.RedeliverPerSecond),
				lastAck(s.LastAck),
			})
		}
	}
	return in.table(rows)
}

// lastAck is the instant of the last acknowledgement, or "-" if Pulsar does not know it.
func lastAck(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format(time.RFC3339)
}

// printable escapes the characters of external text that are not printable, so that it stays on one
// line and cannot control the terminal. Quotes and backslashes stay as they are.
func printable(text string) string {
	if text == "" {
		return "-"
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r != utf8.RuneError && strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			q := strconv.Quote(text[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return b.String()
}

// line is a message as peek prints it.
type line struct {
	ID        string          `json:"id"`
	Published *time.Time      `json:"published,omitempty"`
	Message   json.RawMessage `json:"message,omitempty"`
	Raw       []byte          `json:"raw,omitempty"`
	Error     string          `json:"error,omitempty"`
}

func toLine(m *pulsartopics.Message) line {
	l := line{ID: m.ID}
	if !m.Published.IsZero() {
		at := m.Published.UTC()
		l.Published = &at
	}
	text, err := []byte(nil), m.Err
	if err == nil {
		text, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(m.Decoded)
	}
	if err != nil {
		l.Raw, l.Error = m.Raw, err.Error()
		return l
	}
	l.Message = text
	return l
}
