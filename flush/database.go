package flush

import (
	"context"
	"errors"
	"fmt"
)

// ErrOtherDatabase says that the job was flushed into another database before: the URL of
// this process is wrong, or the database was made anew. See Config.AdoptDatabase.
var ErrOtherDatabase = errors.New("flush: this is another database than the one that the job was flushed into")

const fieldDatabase = "database" // of control: the identity of the database

// An identifier is a Sink that can tell its database from others.
type identifier interface {
	Identity(ctx context.Context) (string, error)
}

// claimDatabase makes sure that the job is flushed into one database. Processes with the
// same mappings and different databases would write to them by turns, and each of them
// would be stale.
func (e *Engine) claimDatabase(ctx context.Context) error {
	sink, ok := e.sink.(identifier)
	if !ok {
		return nil
	}
	ours, err := sink.Identity(ctx)
	if err != nil {
		return err
	}
	adopt := ""
	if e.cfg.AdoptDatabase {
		adopt = "1"
	}
	known, err := e.eval(ctx, databaseScript, []string{e.keys.Control}, ours, adopt)
	if err != nil {
		return err
	}
	return sameDatabase(known, ours)
}

// checkDatabase is for a process that stands by: it writes nothing.
func (e *Engine) checkDatabase(ctx context.Context) error {
	sink, ok := e.sink.(identifier)
	if !ok || e.cfg.AdoptDatabase {
		return nil
	}
	ours, err := sink.Identity(ctx)
	if err != nil {
		return err
	}
	reply, err := e.eval(ctx, pickScript, []string{e.keys.Control}, "get", fieldDatabase)
	if err != nil {
		return nil // Redis can't be asked: it elects nobody then
	}
	known, ok := reply.([]any)
	if !ok || len(known) != 1 || known[0] == nil {
		return nil
	}
	return sameDatabase(known[0], ours)
}

func sameDatabase(known any, ours string) error {
	if known == ours {
		return nil
	}
	return fmt.Errorf("%w: that was %v, this is %s", ErrOtherDatabase, known, ours)
}
