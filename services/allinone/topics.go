package allinone

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsartopics"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
)

const topicsUsage = `carillon topics <verb> [flags]

  list                             the topics: partitions, rates, what waits
  backlog [TOPIC]                  what waits, by subscription
  subscriptions [TOPIC]            who reads, and how it goes
  peek TOPIC [-n 10]               what waits, decoded, a line of JSON each; nothing is taken away
                                   (-subscription NAME; -latest: what was published last, whoever has read it)
  dead [-n 50]                     the dead letters that wait for the operators
  reset TOPIC SUBSCRIPTION -to P   set a cursor to P: earliest, latest, an instant (2026-01-31T12:00:00Z) or -15m; wants -yes
  redrive -app APP                 make failed fires again, through Carillon's API (-help lists how they are selected); wants -yes

It talks to Pulsar's admin API: -pulsar-admin-url, -pulsar-tenant, -pulsar-namespace and -pulsar-token, or their variables. redrive talks to Carillon's
API alone, with a key of scope write (-key-file, or CARILLON_API_KEY): the database says what is made again, and the letters of that are acknowledged.
Publishing a letter's task anew fires nothing.
`

const topicsTimeout = time.Minute // of a verb

// adminSettings are where the topics are: the admin URL is enough.
type adminSettings struct{ pulsar config.Pulsar }

// Register names the settings, among them the URL that is not needed: one environment serves all
// commands.
func (a *adminSettings) Register(s *config.Set) { a.pulsar.Register(s) }

// Validate checks them.
func (a *adminSettings) Validate() error {
	p := a.pulsar
	if p.URL == "" {
		p.URL = "pulsar://unused:6650"
	}
	return p.Validate()
}

// topicsCommand is one run of the command.
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

// Topics shows an operator the topics of a cluster.
func Topics(ctx context.Context, args []string, env process.Env, stdout, _ io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") && strings.Contains(args[0], "h") {
		return usageError(topicsUsage)
	}
	in := &topicsCommand{out: stdout}
	verb := args[0]
	if verb == "redrive" {
		return redrive(ctx, args[1:], env, stdout)
	}
	own := flag.NewFlagSet("carillon topics "+verb, flag.ContinueOnError)
	own.SetOutput(io.Discard)
	own.IntVar(&in.n, "n", 0, "how many messages")
	own.StringVar(&in.subscription, "subscription", "", "whose messages")
	own.BoolVar(&in.latest, "latest", false, "what was published last")
	own.StringVar(&in.to, "to", "", "where to set the cursor")
	own.BoolVar(&in.yes, "yes", false, "do it")
	words, ownArgs, settings := splitArgs(args[1:], own)
	if err := own.Parse(ownArgs); err != nil {
		return usageError("carillon topics: " + err.Error())
	}
	var a adminSettings
	if err := config.NewSet("carillon topics "+verb, &a).Load(settings, env, stdout); err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	in.args = words
	topics, err := pulsartopics.New(pulsartopics.Config{
		AdminURL:  a.pulsar.AdminURL.Reveal(),
		Tenant:    a.pulsar.Tenant,
		Namespace: a.pulsar.Namespace,
		Token:     a.pulsar.Token.Reveal(),
	})
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	defer topics.Close()
	in.topics = topics
	ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
	defer cancel()
	err = in.run(ctx, verb)
	if errors.Is(err, pulsartopics.ErrNoTopic) {
		return usageError(err.Error())
	}
	return err
}

func (in *topicsCommand) run(ctx context.Context, verb string) error {
	verbs := map[string]struct {
		least, most int
		do          func(context.Context) error
	}{
		"list":          {0, 0, in.list},
		"backlog":       {0, 1, in.backlog},
		"subscriptions": {0, 1, in.subscriptions},
		"peek":          {1, 1, in.peek},
		"dead":          {0, 0, in.dead},
		"reset":         {2, 2, in.reset},
	}
	v, ok := verbs[verb]
	switch {
	case !ok:
		return usageError(fmt.Sprintf("carillon topics: no verb %q\n%s", verb, topicsUsage))
	case len(in.args) < v.least || len(in.args) > v.most:
		return usageError(
			fmt.Sprintf(
				"carillon topics %s: %d arguments are too few or too many\n%s",
				verb,
				len(in.args),
				topicsUsage,
			),
		)
	}
	return v.do(ctx)
}

// describe returns the topic that was named, or all.
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
				"carillon topics: this would set the cursor of %s on %s to %s (backlog now %d, %d consumers): say -yes to do it",
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

// parsePosition reads where a cursor shall go.
func parsePosition(text string, now time.Time) (pulsartopics.Position, error) {
	switch text {
	case "earliest":
		return pulsartopics.Position{Earliest: true}, nil
	case "latest":
		return pulsartopics.Position{Latest: true}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d < 0 {
		return pulsartopics.Position{At: now.Add(d)}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return pulsartopics.Position{}, fmt.Errorf(
			"carillon topics: -to %q is neither earliest nor latest nor an instant such as %s nor a negative duration such as -15m",
			text,
			now.UTC().Format(time.RFC3339),
		)
	}
	return pulsartopics.Position{At: at}, nil
}

// splitArgs parts a command line into words, own flags with their values, and all else.
func splitArgs(args []string, own *flag.FlagSet) (words, mine, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			words = append(words, a)
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		f := own.Lookup(name)
		to := &rest
		wantsValue := name != "help" && name != "h" && name != "print-config"
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
