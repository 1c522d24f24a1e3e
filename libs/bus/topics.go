package bus

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// TopicSpec is the desired configuration of a topic.
type TopicSpec struct {
	Topic      Topic
	Partitions int // 0 means not partitioned
	// Subscriptions are created before the first publish, at the earliest message.
	Subscriptions []string
	Schema        protoreflect.MessageDescriptor // registered as a proto-native schema
	// Retention: how long messages are kept that no subscription waits for; 0 means not at all.
	Retention time.Duration
}

// The subscription names.
const (
	SubTriggers  = "triggers"  // of Slices
	SubExecutors = "executors" // of the tasks topics
)

// DefaultTaskPartitions is the number of partitions of each task topic.
const DefaultTaskPartitions = 4

// Topics returns the topics of a deployment. taskPartitions is the number of partitions of each
// task topic.
func Topics(taskPartitions int) []TopicSpec {
	task := (&carillonv1.Task{}).ProtoReflect().Descriptor()
	tasks := func(t Topic) TopicSpec {
		return TopicSpec{
			Topic:         t,
			Partitions:    taskPartitions,
			Subscriptions: []string{SubExecutors},
			Schema:        task,
		}
	}
	return []TopicSpec{
		{
			Topic:         Slices,
			Subscriptions: []string{SubTriggers},
			Schema:        (&carillonv1.Slice{}).ProtoReflect().Descriptor(),
		},
		tasks(TasksHigh),
		tasks(TasksNormal),
		tasks(TasksLow),
		{
			Topic:     TasksDead,
			Schema:    (&carillonv1.DeadTask{}).ProtoReflect().Descriptor(),
			Retention: 7 * 24 * time.Hour,
		},
		{Topic: TimersChanged, Schema: (&carillonv1.TimerChanged{}).ProtoReflect().Descriptor()},
		{
			Topic:     Outcomes,
			Schema:    (&carillonv1.Outcome{}).ProtoReflect().Descriptor(),
			Retention: 24 * time.Hour,
		},
		{
			Topic:     Audit,
			Schema:    (&carillonv1.AuditEntry{}).ProtoReflect().Descriptor(),
			Retention: 7 * 24 * time.Hour,
		},
	}
}
