package sqlstore

// restoringVersion is the number of a migration that does not exist. Its row in goose_db_version
// says that a backup is being restored. Programs of every release refuse a migration that they do
// not know and that schema_readers does not allow. So none uses a store before all of it is there.
const restoringVersion = 1_000_000_000_000

// RestoringError means that a restore into the database has begun and not finished. It never passes
// by itself.
type RestoringError struct{}

func (*RestoringError) Error() string {
	return "a restore into this database has begun and not finished: " +
		"run carillon restore with the same backup again (with another one if no row is there yet), " +
		"or begin with an empty database"
}
