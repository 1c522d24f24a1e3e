package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin/config"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsartopics"
	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// Servers are a cluster's own share of the real servers: a database, a key prefix, a namespace.
type Servers struct {
	MySQLDSN       string
	MySQLProxyDSN  string // on Galera: gives each connection a node that serves
	RedisAddrs     []string
	RedisPrefix    string
	RedisMaster    string // its name at the sentinels RedisAddrs; "": no sentinels
	PulsarURL      string
	PulsarAdminURL string
	// Brokers are the URLs of a cluster's brokers. PulsarURL is then that of its proxy.
	Brokers, BrokersAdmin string
	PulsarTenant          string
	PulsarNamespace       string
	// Files are those of TLS to all servers; nil: no TLS.
	Files *certfile.Files
}

// Env returns the settings by which a process finds the servers.
func (s *Servers) Env() map[string]string {
	env := map[string]string{
		"CARILLON_MYSQL_DSN":        s.MySQLDSN,
		"CARILLON_REDIS_ADDRS":      strings.Join(s.RedisAddrs, ","),
		"CARILLON_REDIS_PREFIX":     s.RedisPrefix,
		"CARILLON_PULSAR_URL":       s.PulsarURL,
		"CARILLON_PULSAR_ADMIN_URL": s.PulsarAdminURL,
		"CARILLON_PULSAR_TENANT":    s.PulsarTenant,
		"CARILLON_PULSAR_NAMESPACE": s.PulsarNamespace,
	}
	if s.RedisMaster != "" {
		env["CARILLON_REDIS_SENTINEL_MASTER"] = s.RedisMaster
	}
	if s.Files != nil {
		env["CARILLON_MYSQL_TLS"], env["CARILLON_REDIS_TLS"] = "true", "true"
		for _, server := range []string{"MYSQL", "REDIS", "PULSAR"} {
			env["CARILLON_"+server+"_TLS_CA"] = s.Files.CA
			env["CARILLON_"+server+"_TLS_CERT"] = s.Files.Cert
			env["CARILLON_"+server+"_TLS_KEY"] = s.Files.Key
		}
	}
	return env
}

// Replica returns the servers as the i-th replica of a service reaches them. On a cluster of brokers
// every other one uses the proxy.
func (s *Servers) Replica(i int) *Servers {
	to := *s
	if s.Brokers != "" && i%2 == 0 {
		to.PulsarURL, to.PulsarAdminURL = s.Brokers, s.BrokersAdmin
	}
	return &to
}

// DeleteTopic deletes a topic by force, with its subscriptions and unread messages.
func (s *Servers) DeleteTopic(topic bus.Topic) error {
	a, name, err := s.admin(topic)
	if err != nil {
		return err
	}
	for _, nonPartitioned := range []bool{true, false} {
		if err = a.Topics().Delete(name, true, nonPartitioned); err == nil {
			return nil
		}
	}
	return fmt.Errorf("deleting topic %s: %w", topic, err)
}

// DeadLetters returns the published dead letters by fire id.
func (s *Servers) DeadLetters(ctx context.Context) (map[string]*carillonv1.DeadTask, error) {
	topics, err := pulsartopics.New(pulsartopics.Config{
		AdminURL: s.PulsarAdminURL, Tenant: s.PulsarTenant, Namespace: s.PulsarNamespace,
	})
	if err != nil {
		return nil, fmt.Errorf("reading dead letters: %w", err)
	}
	defer topics.Close()
	msgs, err := topics.PeekLatest(ctx, bus.TasksDead, pulsartopics.MaxPeek)
	if err != nil {
		return nil, fmt.Errorf("reading dead letters: %w", err)
	}
	dead := make(map[string]*carillonv1.DeadTask, len(msgs))
	for _, m := range msgs {
		d := new(carillonv1.DeadTask)
		if err := proto.Unmarshal(m.Raw, d); err != nil {
			return nil, fmt.Errorf("reading a dead letter: %w", err)
		}
		t := d.GetTask()
		dead[timer.FireID{Timer: timer.ID(t.GetTimerId()), DueMS: t.GetDueMs(), Series: t.GetSeries()}.String()] = d
	}
	return dead, nil
}

// Published is a message of a topic that is not Carillon's.
type Published struct {
	Payload    []byte
	Properties map[string]string
}

// listener is the subscription of tests that read their own topics.
const listener = "listener"

// Listen creates a topic that keeps its messages.
func (s *Servers) Listen(ctx context.Context, topic string) error {
	a, name, err := s.adminOf(topic)
	if err != nil {
		return err
	}
	if err := a.Topics().CreateWithContext(ctx, name, 0); err != nil {
		return fmt.Errorf("creating the topic %s: %w", topic, err)
	}
	if err := a.Subscriptions().CreateWithContext(ctx, name, listener, utils.Earliest); err != nil {
		return fmt.Errorf("subscribing to %s: %w", topic, err)
	}
	return nil
}

// Received returns the first message on a topic since Listen, or nil if there is none.
func (s *Servers) Received(ctx context.Context, topic string) (*Published, error) {
	a, name, err := s.adminOf(topic)
	if err != nil {
		return nil, err
	}
	msgs, err := a.Subscriptions().PeekMessagesWithContext(ctx, name, listener, 1)
	var re rest.Error
	if errors.As(err, &re) && re.Code == http.StatusNotFound || err == nil && len(msgs) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("peeking at %s: %w", topic, err)
	}
	return &Published{msgs[0].Payload, msgs[0].Properties}, nil
}

// Traffic is what was published to the topics of a namespace. A batch of messages is one entry.
type Traffic struct{ Messages, Entries, Bytes int64 }

// Traffic adds up the topics: their messages and entries since the broker loaded them, and the bytes
// that they have stored.
func (s *Servers) Traffic(ctx context.Context) (t Traffic, err error) {
	a, _, err := s.adminOf(fmt.Sprintf("persistent://%s/%s/any", s.PulsarTenant, s.PulsarNamespace))
	if err != nil {
		return t, err
	}
	ns, err := utils.GetNameSpaceName(s.PulsarTenant, s.PulsarNamespace)
	if err != nil {
		return t, fmt.Errorf("naming the namespace: %w", err)
	}
	_, topics, err := a.Topics().ListWithContext(ctx, *ns)
	if err != nil {
		return t, fmt.Errorf("listing topics: %w", err)
	}
	for _, topic := range topics {
		name, err := utils.GetTopicName(topic)
		if err != nil {
			return t, fmt.Errorf("naming topic %s: %w", topic, err)
		}
		stats, err := a.Topics().GetStatsWithContext(ctx, *name)
		if err != nil {
			return t, fmt.Errorf("reading the stats of %s: %w", topic, err)
		}
		internal, err := a.Topics().GetInternalStatsWithContext(ctx, *name)
		if err != nil {
			return t, fmt.Errorf("reading the stats of %s: %w", topic, err)
		}
		t.Messages += stats.MsgCounterIn
		t.Entries += internal.EntriesAddedCounter
		t.Bytes += internal.TotalSize
	}
	return t, nil
}

func (s *Servers) admin(topic bus.Topic) (admin.Client, utils.TopicName, error) {
	return s.adminOf(fmt.Sprintf("persistent://%s/%s/%s", s.PulsarTenant, s.PulsarNamespace, topic))
}

func (s *Servers) adminOf(topic string) (admin.Client, utils.TopicName, error) {
	name, err := utils.GetTopicName(topic)
	if err != nil {
		return nil, utils.TopicName{}, fmt.Errorf("naming topic %s: %w", topic, err)
	}
	a, err := pulsaradmin.NewClient(&config.Config{WebServiceURL: s.PulsarAdminURL})
	if err != nil {
		return nil, utils.TopicName{}, fmt.Errorf("creating Pulsar's admin client: %w", err)
	}
	return a, *name, nil
}
