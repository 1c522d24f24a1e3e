// Package window is the contract of the near future: the marks of open fires by slice. memwindow
// (embedded) and rediswindow (Redis, also Cluster) keep it, and package windowtest holds the suite
// that both pass.
//
// The window is a copy: the store is the truth, and everything here can vanish at any time. Readers
// learn of that by the generation.
//
// # Promises
//
//   - W1 Put is idempotent: a mark put twice (same fire, same revision) is there once; one of a
//     later revision is another mark.
//   - W2 Range returns the marks of a slice with from < run <= to (unix ms), in order of run, each
//     as it was put.
//   - W3 Generation: Open returns the slice's generation, making one where there is none; Range
//     returns the current one, empty where there is none. When the slice's marks were lost, the
//     generation that Range returns differs from the one that Open returned, for ever: no later Put
//     or Open brings the old one back.
//   - W4 Range in pages: it stops after limit marks, but never between two marks of one instant,
//     and tells whether there are more; going on from the last run misses none.
//   - W5 Drop removes a slice, its marks and its generation.
//   - W6 Everything expires by itself, TTL after its slice's minute ended, without Drop.
//   - W7 Put takes marks of any number of slices in one pipelined call. It reports an error when
//     any mark may be missing.
//   - W8 Slices do not touch: marks of one never show in another.
package window
