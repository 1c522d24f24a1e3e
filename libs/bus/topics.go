package bus

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// TopicSpec says how a topic shall be.
type TopicSpec struct {
	Topic      Topic
	Partitions int // 0: not partitioned
	// made before the first publish, from the earliest message on.
	Subscriptions []string
	Schema        protoreflect.MessageDescriptor // registered as a proto-native schema
	Retention     time.Duration                  // how long acknowledged messages are kept; 0: not
}

// The subscriptions.
const (
	SubTriggers  = "triggers"  // of Slices
	SubExecutors = "executors" // of the tasks topics
	SubOperators = "operators" // of TasksDead; nobody of ours consumes it
)

// DefaultTaskPartitions is how many partitions each tasks topic gets.
const DefaultTaskPartitions = 4

// Topics returns the topics of a deployment.
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
			Topic:         TasksDead,
			Subscriptions: []string{SubOperators},
			Schema:        (&carillonv1.DeadTask{}).ProtoReflect().Descriptor(),
		},
		{Topic: TimersChanged, Schema: (&carillonv1.TimerChanged{}).ProtoReflect().Descriptor()},
		{
			Topic:     Outcomes,
			Schema:    (&carillonv1.Outcome{}).ProtoReflect().Descriptor(),
			Retention: 24 * time.Hour,
		},
	}
}
