package dialect

import (
	"context"
	"database/sql"
)

// cut calls f with the items in order, in groups of at most so many, and of at most so
// many bytes unless a single item has more.
func cut(items [][]any, most, bytes int, f func(group [][]any) error) error {
	start, total := 0, 0
	for i, item := range items {
		n := size(item)
		if i > start && (i-start >= most || total+n > bytes) {
			if err := f(items[start:i]); err != nil {
				return err
			}
			start, total = i, 0
		}
		total += n
	}
	return f(items[start:])
}

// size is about what the values take in a message.
func size(values []any) int {
	n := 0
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v) + 4
		case []byte:
			n += len(v) + 4
		default:
			n += 12
		}
	}
	return n
}

// A job is a statement that is to be run for groups of items.
type job struct {
	text    func(items int) string
	arrange func(args []any, item []any) []any // appends an item's arguments
	tail    []any                              // the arguments after those of all items

	most  int // items in a statement
	bytes int // of their values in a statement
}

// run runs the job in the transaction. With several full groups their statement is
// prepared: for SQLite and MariaDB that is a third quicker, although it has to be done
// in each transaction. Prepared on the *sql.DB it could live longer, but that takes a
// second connection from the pool while the transaction holds one. A single item that
// is too large is prepared too, so that no driver puts it into the text: there it
// could grow beyond what the server takes.
func (j *job) run(ctx context.Context, tx *sql.Tx, items [][]any) error {
	var prepared *sql.Stmt
	defer func() {
		if prepared != nil {
			_ = prepared.Close() // the transaction's end closes it too
		}
	}()
	args := make([]any, 0, min(len(items), j.most)*(len(items[0])+1)+len(j.tail))
	return cut(items, j.most, j.bytes, func(group [][]any) (err error) {
		args = args[:0]
		for _, item := range group {
			args = j.arrange(args, item)
		}
		args = append(args, j.tail...)
		switch {
		case len(group) == j.most && len(items) >= 2*j.most:
			if prepared == nil {
				if prepared, err = tx.PrepareContext(ctx, j.text(j.most)); err != nil {
					return err
				}
			}
			_, err = prepared.ExecContext(ctx, args...)
			return err
		case len(group) == 1 && size(group[0]) > j.bytes:
			return execPrepared(ctx, tx, j.text(1), args)
		}
		_, err = tx.ExecContext(ctx, j.text(len(group)), args...)
		return err
	})
}

func execPrepared(ctx context.Context, tx *sql.Tx, text string, args []any) error {
	prepared, err := tx.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { _ = prepared.Close() }()
	_, err = prepared.ExecContext(ctx, args...)
	return err
}
