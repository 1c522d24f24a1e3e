package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsartopics"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/timer"
)

const topicsUsage = `carillon topics COMMAND

  list                            show the topics: partitions, rates, backlogs
  backlog [TOPIC]                 show the backlog by subscription
  subscriptions [TOPIC]           show the subscriptions, their consumers and rates; LAST
                                  ACKNOWLEDGED is - where Pulsar does not know it
  peek TOPIC                      print waiting messages, decoded, one JSON object per line,
                                  without consuming them
    -n 10                         so many
    -subscription NAME            of this subscription
    -latest                       the last published messages, consumed or not
  reset TOPIC SUBSCRIPTION -to P  set a cursor to P: earliest, latest, -15m, or an instant such as
                                  2026-01-31T12:00:00Z
    -yes                          confirm it

It uses Pulsar's admin API: -pulsar-admin-url, -pulsar-tenant, -pulsar-namespace and -pulsar-token,
or their variables.`

const topicsTimeout = time.Minute // per command

// adminSettings are the settings of Pulsar; only the admin URL is required.
type adminSettings struct{ pulsar config.Pulsar }

// Register registers the settings. They include the service URL, which is not needed, so that all
// commands share one environment.
func (a *adminSettings) Register(s *config.Set) { a.pulsar.Register(s) }

// Validate checks the settings.
func (a *adminSettings) Validate() error {
	p := a.pulsar
	if p.URL == "" {
		p.URL = "pulsar://unused:6650"
	}
	return p.Validate()
}

// topicsCommand is one run of `carillon topics`.
type topicsCommand struct {
	topics       *pulsartopics.Topics
	out          io.Writer
	args         []string
	n            int
	subscription string
	latest       bool
	to           string
	yes          bool
}

// Topics shows and changes the topics of a cluster, for operators.
func Topics(ctx context.Context, args []string, env process.Env, stdout, _ io.Writer) error {
	in := &topicsCommand{out: stdout}
	own := flag.NewFlagSet("carillon topics", flag.ContinueOnError)
	own.SetOutput(io.Discard)
	own.IntVar(&in.n, "n", 0, "how many messages")
	own.StringVar(&in.subscription, "subscription", "", "subscription whose messages are shown")
	own.BoolVar(&in.latest, "latest", false, "show the last published messages")
	own.StringVar(&in.to, "to", "", "new position of the cursor")
	own.BoolVar(&in.yes, "yes", false, "confirm the change")
	var a adminSettings
	set := config.NewSet("carillon topics", &a)
	words, ownArgs, settings := splitArgs(args, own, set)
	if err := own.Parse(ownArgs); err != nil {
		return usageError("carillon topics: " + err.Error())
	}
	switch {
	case asksForHelp(settings):
		fmt.Fprint(stdout, topicsUsage+"\n\n") // and then the settings
		words = append(words, "")              // there may be no command
	case len(words) == 0:
		return usageError(topicsUsage)
	}
	if err := set.Load(settings, env, stdout); err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	command := words[0]
	in.args = words[1:]
	client, err := a.pulsar.Client(zerolog.Nop())
	if err != nil {
		return err //nolint:wrapcheck // it names the setting
	}
	tokens, err := a.pulsar.Tokens()
	if err != nil {
		return err //nolint:wrapcheck // it names the setting
	}
	topics, err := pulsartopics.New(pulsartopics.Config{
		AdminURL:  a.pulsar.AdminURL.Reveal(),
		Tenant:    a.pulsar.Tenant,
		Namespace: a.pulsar.Namespace,
		Tokens:    tokens,
		TLS:       client,
	})
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	defer topics.Close()
	in.topics = topics
	ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
	defer cancel()
	err = in.run(ctx, command)
	if errors.Is(err, pulsartopics.ErrNoTopic) || errors.Is(err, pulsartopics.ErrNoSubscription) {
		return usageError(err.Error())
	}
	return err
}

func (in *topicsCommand) run(ctx context.Context, command string) error {
	commands := map[string]struct {
		least, most int
		do          func(context.Context) error
	}{
		"list":          {0, 0, in.list},
		"backlog":       {0, 1, in.backlog},
		"subscriptions": {0, 1, in.subscriptions},
		"peek":          {1, 1, in.peek},
		"reset":         {2, 2, in.reset},
	}
	v, ok := commands[command]
	switch {
	case !ok:
		return usageError(fmt.Sprintf("carillon topics: no command %q\n%s", command, topicsUsage))
	case len(in.args) < v.least || len(in.args) > v.most:
		return usageError(
			fmt.Sprintf(
				"carillon topics %s: wrong number of arguments: %d\n%s",
				command,
				len(in.args),
				topicsUsage,
			),
		)
	}
	return v.do(ctx)
}

// describe returns the named topic, or all topics.
func (in *topicsCommand) describe(ctx context.Context) ([]pulsartopics.Topic, error) {
	if len(in.args) == 0 {
		return in.topics.List(ctx) //nolint:wrapcheck // it says what it was doing
	}
	t, err := in.topics.Describe(ctx, bus.Topic(in.args[0]))
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	return []pulsartopics.Topic{*t}, nil
}

func (in *topicsCommand) peek(ctx context.Context) error {
	topic, n := bus.Topic(in.args[0]), orElse(in.n, 10)
	read := func() ([]pulsartopics.Message, error) { return in.topics.PeekLatest(ctx, topic, n) }
	if !in.latest {
		d, err := in.topics.Describe(ctx, topic)
		if err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		if in.subscription == "" && len(d.Subscriptions) == 1 {
			in.subscription = d.Subscriptions[0].Name
		}
		if in.subscription != "" {
			read = func() ([]pulsartopics.Message, error) { return in.topics.PeekBacklog(ctx, topic, in.subscription, n) }
		}
	}
	msgs, err := read()
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	enc := json.NewEncoder(in.out)
	for i := range msgs {
		if err := enc.Encode(toLine(&msgs[i])); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

func (in *topicsCommand) reset(ctx context.Context) error {
	topic, name := bus.Topic(in.args[0]), in.args[1]
	to, err := parsePosition(in.to, time.Now())
	if err != nil {
		return usageError(err.Error())
	}
	d, err := in.topics.Describe(ctx, topic)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	var sub *pulsartopics.Subscription
	for i := range d.Subscriptions {
		if d.Subscriptions[i].Name == name {
			sub = &d.Subscriptions[i]
		}
	}
	if sub == nil {
		return usageError(
			fmt.Sprintf("carillon topics: topic %s has no subscription %q", topic, name),
		)
	}
	if !in.yes {
		return usageError(
			fmt.Sprintf(
				"carillon topics: this would set the cursor of %s on %s to %s (backlog now %d, %d consumers): add -yes to do it",
				name,
				topic,
				in.to,
				sub.Backlog,
				sub.Consumers,
			),
		)
	}
	if err := in.topics.Reset(ctx, topic, name, to); err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	fmt.Fprintf(in.out, "cursor of %s on %s set to %s\n", name, topic, in.to)
	return nil
}

// parsePosition parses the new position of a cursor.
func parsePosition(text string, now time.Time) (pulsartopics.Position, error) {
	switch text {
	case "earliest":
		return pulsartopics.Position{Earliest: true}, nil
	case "latest":
		return pulsartopics.Position{Latest: true}, nil
	}
	if d, err := timer.ParseDuration(text); err == nil && d < 0 {
		return pulsartopics.Position{At: now.Add(time.Duration(d))}, nil
	}
	rfc3339, err := instant(text, now)
	at, wrong := time.Parse(time.RFC3339, rfc3339)
	if _, relative := timer.ParseDuration(text); err != nil || wrong != nil || relative == nil {
		return pulsartopics.Position{}, fmt.Errorf(
			"carillon topics: -to %q is not earliest, latest, an instant like %s, or a negative duration like -15m",
			text,
			now.UTC().Format(time.RFC3339),
		)
	}
	return pulsartopics.Position{At: at}, nil
}

// splitArgs splits a command line into arguments, own flags with their values, and the flags of
// settings with theirs.
func splitArgs(
	args []string, own *flag.FlagSet, settings *config.Set,
) (words, mine, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			words = append(words, a)
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		f := own.Lookup(name)
		to := &rest
		wantsValue := name != "help" && name != "h" && name != "print-config" &&
			!settings.IsBool(name)
		if f != nil {
			to = &mine
			b, ok := f.Value.(interface{ IsBoolFlag() bool })
			wantsValue = !ok || !b.IsBoolFlag()
		}
		*to = append(*to, a)
		if wantsValue && !hasValue && i+1 < len(args) {
			i++
			*to = append(*to, args[i])
		}
	}
	return words, mine, rest
}

func usageError(text string) error { return &config.Problems{List: []string{text}} }

func orElse(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}
