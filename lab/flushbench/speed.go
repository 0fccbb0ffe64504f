package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/flush"
	"github.com/lockkeeper/lockkeeper/lab/flushbench/rig"
	"github.com/lockkeeper/lockkeeper/sqlfence"
)

// A bench is a run of the program.
type bench struct {
	options
	out    io.Writer
	dir    string
	redis  *rig.Redis
	rdb    *redis.Client
	report *report
}

// A cell is one measurement.
type cell struct {
	result
	redis, database time.Duration // CPU
	others          float64       // share of the cores that other programs used
}

func (c cell) perSecond() float64 { return float64(c.Rows) / c.Took.Seconds() }

func (c cell) perRow(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(c.Rows)
}

// speed measures how quickly rows get into one database, in rounds in which all ways
// take turns.
func (b *bench) speed(ctx context.Context, kind sqlfence.Dialect) (err error) {
	db, err := b.start(ctx, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for round := range b.rounds {
		b.say("%s, round %d of %d", kind, round+1, b.rounds)
		for _, way := range ways {
			if !way.again {
				if err := empty(ctx, db); err != nil {
					return err
				}
			}
			c, err := b.measure(ctx, db, way, round)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", kind, way.name, err)
			}
			b.report.add(kind, way.name, c)
		}
	}
	return nil
}

// A way is a way of getting rows into a database.
type way struct {
	name  string
	do    string
	again bool // the rows are there, and get other values
}

var ways = []way{
	{"flush, new rows", doFlush, false},
	{"flush, changed rows", doFlush, true},
	{"row by row, autocommit", doRows, false},
	{"bulk", doBulk, false},
}

// measure makes Redis ready and has a worker do it.
func (b *bench) measure(ctx context.Context, db *rig.Database, w way, round int) (cell, error) {
	o := order{Do: w.do, Kind: db.Kind, URL: db.URL, Redis: b.redis.Addr(), Rows: b.rows, Edition: 2 * round, Batch: b.batch, Within: 4 * time.Second}
	if w.again {
		o.Edition++
	}
	if b.profile != "" && round == 0 {
		o.Profile = filepath.Join(b.profile, fmt.Sprintf("%s-%s%v.prof", db.Kind, w.do, map[bool]string{true: "-again"}[w.again]))
	}
	if w.do == doFlush {
		if err := fillMarked(ctx, b.rdb, o.Rows, o.Edition); err != nil {
			return cell{}, err
		}
	}
	c, err := b.runWorker(db, o)
	if err != nil || w.do != doFlush {
		return c, err
	}
	return c, b.flushedAll(ctx, db, o.Rows)
}

// runWorker runs one worker from its start to its end.
func (b *bench) runWorker(db *rig.Database, o order) (cell, error) {
	child, err := rig.StartChild(asWorker, os.Stderr)
	if err != nil {
		return cell{}, err
	}
	defer child.Kill()
	child.Tell(o)
	var c cell
	var ready any
	if err := child.Hear(&ready); err != nil {
		return c, err
	}
	if ready != "ready" {
		return c, fmt.Errorf("the worker said %v", ready)
	}
	redis, database, own, busy := b.redis.CPU(), db.CPU(), rig.OwnCPU(), rig.Busy()
	child.Tell("go")
	if err := child.Hear(&c.result); err != nil {
		return c, err
	}
	c.redis, c.database = b.redis.CPU()-redis, db.CPU()-database
	ours := c.redis + c.database + c.CPU + rig.OwnCPU() - own
	c.others = float64(rig.Busy()-busy-ours) / float64(c.Took) / float64(runtime.NumCPU())
	if c.Error != "" {
		return c, errors.New(c.Error)
	}
	child.End()
	<-child.Exited()
	return c, nil
}

// flushedAll makes sure that the worker has done what it said.
func (b *bench) flushedAll(ctx context.Context, db *rig.Database, rows int) error {
	dirty, err := b.rdb.ZCard(ctx, flush.KeysOf("", job).Dirty).Result()
	if err != nil {
		return err
	}
	conn, err := rig.Open(db.Kind, db.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it has only read
	var n int
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		return err
	}
	if dirty != 0 || n != rows {
		return fmt.Errorf("%d keys are dirty and %d rows are there, of %d", dirty, n, rows)
	}
	return nil
}

// empty makes the tables new.
func empty(ctx context.Context, d *rig.Database) (err error) {
	db, err := rig.Open(d.Kind, d.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
		return err
	}
	if err := settle(ctx, d.Kind, db); err != nil {
		return err
	}
	sink, err := flush.NewSQL(db, d.Kind, players())
	if err != nil {
		return err
	}
	return sink.Migrate(ctx)
}

// settle has a database finish what it has put off, so that the next measurement does
// not pay for the one before.
func settle(ctx context.Context, kind sqlfence.Dialect, db *sql.DB) error {
	statement := map[sqlfence.Dialect]string{
		sqlfence.SQLite:   "VACUUM",
		sqlfence.Postgres: "CHECKPOINT",
		sqlfence.MariaDB:  "FLUSH TABLES",
	}[kind]
	_, err := db.ExecContext(ctx, statement)
	return err
}
