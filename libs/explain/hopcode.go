package explain

// HopCode is what happened to a fire at a hop.
type HopCode string

// The codes of hops.
const (
	HopRequested  HopCode = "requested"
	HopCreated    HopCode = "created"
	HopDue        HopCode = "due"
	HopDispatched HopCode = "dispatched"
	HopFound      HopCode = "found"
	HopClaimed    HopCode = "claimed"
	HopWaited     HopCode = "waited"
	HopAttempt    HopCode = "attempt"
	HopRecorded   HopCode = "recorded"
	HopWaiting    HopCode = "waiting"
)

// HopMeaning is what the code of a hop means.
type HopMeaning struct {
	Code HopCode
	Text string
}

// HopMeanings returns every code of a hop with its meaning, for documents.
func HopMeanings() []HopMeaning {
	return []HopMeaning{
		{HopRequested, "a run-now, a backfill or a redrive requested the fire"},
		{HopCreated, "the fire was created from the schedule; when is not recorded"},
		{HopDue, "the fire was due"},
		{HopDispatched, "its task was published, by its slice or directly"},
		{HopFound, "no task brought it, and an executor found it in the store"},
		{HopClaimed, "a session of an executor claimed it"},
		{HopWaited, "it waited before its first attempt; of several waits the longest"},
		{HopAttempt, "its target was called"},
		{HopRecorded, "its outcome, as its executor knew it then; the record may follow later"},
		{HopWaiting, "what it waits for now"},
	}
}
