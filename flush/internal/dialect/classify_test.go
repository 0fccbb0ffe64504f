package dialect_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/flush/internal/dialect"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

func TestClassify(t *testing.T) {
	for d, classes := range map[sqlfence.Dialect]map[dialect.Class]string{
		sqlfence.Postgres: {
			dialect.BadRow:       "22001 22003 22021 22P02 22P05 23502 23505 23514 23P01 21000 44000 P0001 54000",
			dialect.BadReference: "23503 23001",
			dialect.BadSchema:    "42P01 42703 42501 42804 42P10 28P01 28000 3D000 3F000 0A000 54011 55000",
			dialect.Transient:    "08000 08006 08P01 40001 40P01 53100 53300 55P03 57014 57P01 57P02 57P03 25006 25P02 25P03 26000 58030 XX000 XX001 ? 42",
		},
		sqlfence.MySQL: {
			dialect.BadRow:       "1048 1062 1264 1265 1292 1366 1406 3819 1644 1118 1153",
			dialect.BadReference: "1216 1217 1451 1452",
			dialect.BadSchema:    "1044 1045 1049 1054 1064 1142 1146 1364",
			dialect.Transient:    "1020 1040 1053 1105 1158 1159 1205 1206 1213 1290 1317 1836 1927 1969 2006 2013 3024 4031 9999",
		},
		sqlfence.MariaDB: {
			dialect.BadRow:       "1062 4025",
			dialect.BadReference: "1452",
			dialect.BadSchema:    "1146",
			dialect.Transient:    "1205 1213",
		},
		sqlfence.SQLite: {
			dialect.BadRow:    "18 19 20",
			dialect.BadSchema: "1 3 23 25 26",
			dialect.Transient: "5 6 7 8 9 10 11 13 14 15 17 21",
		},
	} {
		r := newRig(t, d)
		for want, codes := range classes {
			for code := range strings.SplitSeq(codes, " ") {
				err := fmt.Errorf("wrapped: %w", errors.New("the server's words"))
				got := r.db.Classify(err, func(asked error) string {
					if asked != err {
						t.Errorf("the code of %v is asked for", asked)
					}
					return code
				})
				if got != want {
					t.Errorf("%s: %s is %v, not %v", d, code, got, want)
				}
			}
		}
	}
}

func TestClassifyByWords(t *testing.T) {
	for _, c := range []struct {
		d    sqlfence.Dialect
		code string
		err  error
		want dialect.Class
	}{
		{sqlfence.SQLite, "19", errors.New("constraint failed: FOREIGN KEY constraint failed (787)"), dialect.BadReference},
		{sqlfence.SQLite, "19", errors.New("constraint failed: NOT NULL constraint failed: t.n (1299)"), dialect.BadRow},
		{sqlfence.MariaDB, "1105", errors.New("Error 1105 (HY000): Parameter of prepared statement which is set through mysql_send_long_data() is longer than 'max_allowed_packet' bytes"), dialect.BadRow},
		{sqlfence.Postgres, "0A000", errors.New("ERROR: cached plan must not change result type (SQLSTATE 0A000)"), dialect.Transient},
		{sqlfence.Postgres, "", errors.New("failed to encode args[0]: unable to encode 1 into text format for text (OID 25)"), dialect.BadRow},
		{sqlfence.MySQL, "", errors.New("packet for query is too large. Try adjusting the `Config.MaxAllowedPacket`"), dialect.BadRow},
		{sqlfence.SQLite, "", errors.New("sqlite: invalid driver.Value type struct {}"), dialect.BadRow},
		{sqlfence.SQLite, "", errors.New("sql: converting argument $2 type: unsupported type struct {}, a struct"), dialect.BadRow},
		{sqlfence.MySQL, "", driver.ErrBadConn, dialect.Transient},
		{sqlfence.MySQL, "", errors.New("invalid connection"), dialect.Transient},
		{sqlfence.Postgres, "", context.DeadlineExceeded, dialect.Transient},
		{sqlfence.Postgres, "", context.Canceled, dialect.Transient},
		{sqlfence.Postgres, "", sql.ErrTxDone, dialect.Transient},
		// A driver may show its argument in an error of the network.
		{sqlfence.Postgres, "", &net.OpError{Op: "write", Err: errors.New("failed to encode args[0]")}, dialect.Transient},
	} {
		got := newRig(t, c.d).db.Classify(fmt.Errorf("set rows: %w", c.err), func(error) string { return c.code })
		if got != c.want {
			t.Errorf("%s: %v is %v, not %v", c.d, c.err, got, c.want)
		}
	}
}

// A value of a Go type that Convert does not give ends no batch for ever.
func TestWrongValue(t *testing.T) {
	r := newRig(t, sqlfence.Postgres)
	tab := table(t, "t", 1, 1, "k int64", "n int64")
	for _, v := range []any{"1", 1, []byte("1"), struct{}{}} {
		said, err := r.inTx(t, func(tx *sql.Tx) error {
			return r.db.Upsert(t.Context(), tx, tab, [][]any{{int64(1), v}}, 1)
		})
		if len(said) > 0 || err == nil || r.db.Classify(err, func(error) string { return "" }) != dialect.BadRow {
			t.Errorf("%T: %v, %v", v, err, said)
		}
	}
}
