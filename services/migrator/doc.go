// Package migrator expands timers into fires. It plans the timers whose expansion is due, inserts
// their fires into the store, puts committed fires into the window, and purges expired rows. It also
// carries out jobs, page by page. Any number of migrators run side by side, because each skips the
// rows that another has locked or leased.
package migrator
