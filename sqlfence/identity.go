package sqlfence

import (
	"context"
	"crypto/rand"
)

// identity is the resource whose owner is the identity of the database. Nobody claims it.
const identity = "lockkeeper: identity of this database"

// Identity returns a random name that tells this database from others. It is made when it
// is first asked for, and kept in the table lockkeeper_fence: so it is the same for all
// who reach the database, and comes back with a backup.
func (s *Store) Identity(ctx context.Context) (string, error) {
	for {
		row, err := s.Current(ctx, identity)
		if err != nil || row.Owner != "" {
			return row.Owner, err
		}
		if _, err := s.db.ExecContext(ctx, s.sql.insert, identity); err != nil {
			return "", wrap("name", identity, err)
		}
		if _, err := s.db.ExecContext(ctx, s.sql.name, rand.Text(), identity); err != nil {
			return "", wrap("name", identity, err)
		}
	}
}
