// Package window is the contract of the window: the open fires of the near future, by slice. The
// implementations are memwindow (embedded) and rediswindow (Redis, also Cluster). Both pass the
// suite in package windowtest.
//
// The window is only a copy: the store is the truth, and all entries can vanish at any time.
// Readers detect that by the generation.
//
// # Promises
//
//   - W1 Put is idempotent. An entry put twice (same fire, same revision) exists once. A later
//     revision of the fire is a separate entry.
//   - W2 Range returns the entries of a slice with from < run time <= to (Unix ms), ordered by run
//     time, each as it was put.
//   - W3 Generation. Open returns the generation of a slice, and creates one if there is none.
//     Range returns the current generation, or "" if there is none. After the entries of a slice
//     were lost, Range never again returns the generation that Open returned before: no later Put
//     or Open restores it.
//   - W4 Pages. Range stops after limit entries, but never between two entries of one instant. It
//     reports whether more follow. Continuing from the last run time misses no entry.
//   - W5 Drop removes a slice: its entries and its generation.
//   - W6 Every slice expires TTL after the end of its minute, even without Drop.
//   - W7 Put accepts entries of any number of slices in one pipelined call. It returns an error if
//     any entry may be missing.
//   - W8 Slices are separate: entries of one never appear in another.
package window
