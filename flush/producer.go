package flush

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

// A Producer writes to Redis and marks what it wrote, in one atomic step and one
// round trip. It is safe for concurrent use.
type Producer struct {
	conn    lockkeeper.Conn
	keys    Keys
	dialect script.Dialect
}

// NewProducer makes a producer for a job. The prefix is that of the engine; "" is
// the default.
func NewProducer(conn lockkeeper.Conn, prefix, job string) (*Producer, error) {
	if conn == nil {
		return nil, errors.New("flush: nil Conn")
	}
	if err := checkJob(job); err != nil {
		return nil, err
	}
	return &Producer{conn: conn, keys: KeysOf(prefix, job)}, nil
}

// Set sets fields of the hash at key, given as field, value, field, value, and keeps
// its other fields, as HSET does.
func (p *Producer) Set(ctx context.Context, key string, fieldsAndValues ...string) error {
	if len(fieldsAndValues) == 0 || len(fieldsAndValues)%2 != 0 {
		return fmt.Errorf("flush: set %q: %d fields and values: they come in pairs", key, len(fieldsAndValues))
	}
	_, err := p.Do(ctx, key, "HSET", fieldsAndValues...)
	return err
}

// Delete deletes the key, and records that its row is to be deleted.
func (p *Producer) Delete(ctx context.Context, key string) error {
	_, err := p.Do(ctx, key, "DEL")
	return err
}

// Do runs any write command that changes one key, and returns its reply, such as
// Do(ctx, "player:7", "HINCRBY", "points", "10"). DEL, UNLINK and GETDEL record a
// delete; everything else is a new value. An error that is no *lockkeeper.ReplyError
// leaves open whether it was written; if it was, it is marked.
func (p *Producer) Do(ctx context.Context, key, command string, args ...string) (any, error) {
	if key == "" || command == "" {
		return nil, errors.New("flush: empty key or command")
	}
	if err := checkCommand(command, args); err != nil {
		return nil, err
	}
	op := opUpdate
	switch strings.ToUpper(command) {
	case "DEL", "UNLINK", "GETDEL":
		op = opDelete
	}
	argv := append([]string{op, command}, args...)
	reply, err := markScript.Run(ctx, p.conn, &p.dialect, p.keys.Mark(key), argv)
	if err != nil {
		return nil, fmt.Errorf("flush: %s %q: %w", command, key, err)
	}
	return reply, nil
}

// severalKeys are the commands that change another key than their first.
var severalKeys = []string{
	"RENAME", "RENAMENX", "COPY", "MOVE", "SMOVE", "LMOVE", "BLMOVE", "RPOPLPUSH", "BRPOPLPUSH", "MSET", "MSETNX",
	"LMPOP", "ZMPOP", "BLMPOP", "BZMPOP", "BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX", "BITOP",
}

// checkCommand refuses commands that change keys of which there would be no mark.
func checkCommand(command string, args []string) error {
	command = strings.ToUpper(command)
	switch {
	case slices.Contains(severalKeys, command),
		(command == "DEL" || command == "UNLINK") && len(args) > 0,
		(command == "SORT" || strings.HasPrefix(command, "GEORADIUS")) && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(strings.ToUpper(a), "STORE") }):
		return fmt.Errorf("flush: %s changes another key too, which would have no mark: write each key for itself", command)
	}
	return nil
}

// What a mark says has happened to a key.
const (
	opUpdate = "U"
	opDelete = "D"
)
