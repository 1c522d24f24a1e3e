package engine

// Capabilities are what some servers can do and others cannot. The store keeps its promises without
// each of them, and then does more itself.
type Capabilities struct {
	// RowLocks is true if a row that is locked on one node is locked on all. Nodes that certify
	// commits do not have it: of two transactions that write one row, a commit rolls one back, but
	// of two that only lock it, both commit. A transaction that relies on a lock therefore also
	// writes a row, its guard.
	RowLocks bool
	// NamedLocks is true if GET_LOCK excludes the connections of all nodes. Without it, migrations
	// take a lock in a table, and the work on partitions is done without a lock.
	NamedLocks bool
	// SkipLocked is true if the server knows FOR UPDATE SKIP LOCKED. Without it, calls that share
	// work wait for each other.
	SkipLocked bool
}

// All returns the capabilities of a single server.
func All() Capabilities {
	return Capabilities{RowLocks: true, NamedLocks: true, SkipLocked: true}
}

// And returns the capabilities that both have.
func (c Capabilities) And(o Capabilities) Capabilities {
	return Capabilities{
		RowLocks:   c.RowLocks && o.RowLocks,
		NamedLocks: c.NamedLocks && o.NamedLocks,
		SkipLocked: c.SkipLocked && o.SkipLocked,
	}
}
