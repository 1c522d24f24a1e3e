package timer

import "fmt"

// Path is what brought a fire to the session that claimed it.
type Path uint8

// The paths. Their numbers are stored and are on the wire.
const (
	PathUnknown  Path = 0 // nobody knows: the fire was not claimed, or its record does not say
	PathSlice    Path = 1 // the task of a trigger that held the slice
	PathDirect   Path = 2 // the task of the process that committed the fire
	PathDueSoon  Path = 3 // an executor asked for unclaimed fires that are due soon
	PathOrphaned Path = 4 // an executor found the claim of an expired session
	PathOverdue  Path = 5 // an executor asked for overdue fires
	PathOwnClaim Path = 6 // an executor asked for its own claims, whose answers were lost
	PathReadmit  Path = 7 // its app could make calls sooner than expected, and an executor looked for it
	PathOrder    Path = 8 // an executor asked for the fires that later ones of the timer wait for
)

// ValueDoc is a value of an enumeration with its meaning, for documents.
type ValueDoc[T any] struct {
	Value T
	Name  string
	Doc   string
}

// Paths returns every path with its name and meaning.
func Paths() []ValueDoc[Path] {
	return []ValueDoc[Path]{
		{PathUnknown, "unknown", "not recorded"},
		{PathSlice, "slice", "a trigger published its task with its slice"},
		{PathDirect, "direct", "the process that committed it published its task at once"},
		{PathDueSoon, "due_soon", "no task came, and an executor found it due soon in the store"},
		{PathOrphaned, "orphaned", "the session that owned it expired, and an executor found it"},
		{PathOverdue, "overdue", "an executor found it long past its run time in the store"},
		{
			PathOwnClaim,
			"own_claim",
			"the answer to its claim was lost and the claim repeated, or the fire was decided again",
		},
		{
			PathReadmit,
			"readmit",
			"its app could make calls sooner than expected, for example by raised limits, and an executor looked for it",
		},
		{
			PathOrder,
			"order",
			"later fires of its timer waited for it, and an executor looked for it",
		},
	}
}

// String returns the path's name, as the API shows it.
func (p Path) String() string { return nameOf(Paths(), p) }

// HasTask reports whether a task brought the fire.
func (p Path) HasTask() bool { return p == PathSlice || p == PathDirect }

// Wait is what a fire waits for between its run time and its first attempt.
type Wait uint8

// The waits. Their numbers are stored and are on the wire.
const (
	WaitUnknown Wait = 0 // nobody knows, or the first attempt has not begun
	WaitNothing Wait = 1
	WaitLimits  Wait = 2 // the limits of the app
	WaitBreaker Wait = 3 // the breaker of the endpoint
	WaitTurn    Wait = 4 // the concurrency slot of the timer
	WaitLow     Wait = 5 // a claim on the low-priority topic
	WaitOrder   Wait = 6 // earlier late fires of the timer
	WaitStore   Wait = 7 // an answer of the store
	WaitWorker  Wait = 8 // a free worker
	WaitActive  Wait = 9 // the activation of the timer
)

// Waits returns every wait with its name and meaning.
func Waits() []ValueDoc[Wait] {
	return []ValueDoc[Wait]{
		{WaitUnknown, "unknown", "not recorded"},
		{WaitNothing, "nothing", "it did not wait"},
		{WaitLimits, "limits", "for the limits of its app"},
		{WaitBreaker, "breaker", "for the breaker of its endpoint"},
		{WaitTurn, "turn", "for an earlier fire of its timer to finish"},
		{WaitLow, "low_priority", "on the low-priority topic"},
		{WaitOrder, "order", "for earlier late fires of its timer"},
		{WaitStore, "store", "for an answer of the store"},
		{WaitWorker, "worker", "for a free worker of its executor"},
		{WaitActive, "activation", "for its timer to be active again"},
	}
}

// String returns the wait's name, as the API shows it.
func (w Wait) String() string { return nameOf(Waits(), w) }

func nameOf[T interface{ ~uint8 }](docs []ValueDoc[T], v T) string {
	for _, d := range docs {
		if d.Value == v {
			return d.Name
		}
	}
	return fmt.Sprintf("unknown %d", uint8(v))
}

// Hops is how a fire went its way, as the executor knows that owns it. The executor keeps it in
// memory while the fire is in flight and stores it with the outcome. If the executor dies, its
// hops are lost: the next owner begins with its own. The zero value means that nothing is known.
type Hops struct {
	Path         Path  // what brought the fire to its latest claim
	DispatchedMS int64 // when its task was published; 0: unknown, or there was no task
	ClaimedMS    int64 // when the session claimed it; 0: unknown
	// WaitedFor is the longest of its waits between its run time and its first attempt. If there
	// was no attempt, the waits end with the fire.
	WaitedFor Wait
	// WaitedMS is how long that wait took; 0: unknown, because an earlier claim made the attempt.
	WaitedMS int64
}

// Hops returns what the row of a fire alone tells of its way, as of nowMS: what it has waited for.
func (f *Fire) Hops(nowMS int64) Hops {
	switch {
	case f.WaitingSinceMS == 0:
		return Hops{WaitedFor: f.WaitedFor}
	case f.Attempt == 0:
		return Hops{WaitedFor: f.WaitedFor, WaitedMS: max(0, nowMS-f.WaitingSinceMS)}
	}
	return Hops{} // it waits for another attempt, which says nothing about the first one
}
