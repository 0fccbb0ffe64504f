package config

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/store"
	"github.com/lockkeeper/lockkeeper/flush"
)

// Defaults and limits of a file.
const (
	DefaultInterval = time.Second
	DefaultBatch    = 500
	DefaultParked   = 0.05

	leastInterval = time.Millisecond
	leastScan     = time.Second
	leastTTL      = 100 * time.Millisecond
	leastParked   = 1e-6
	mostBatch     = 5000 // as in flush.Config
	mostLimit     = 1_000_000

	mostBytes = 64 << 10 // of a file; what nests deeper than that could overflow the parser
)

// A File is what a file describes.
type File struct {
	Name     string // of the file
	Job      string
	Database string // "" when the file has none
	Interval time.Duration
	TTL      time.Duration
	Batch    int

	// MaxParked is that of flush.Config.
	MaxParked float64

	Mappings []flush.Mapping
}

// Flush returns the file as the config of an engine.
func (f *File) Flush() flush.Config {
	return flush.Config{Job: f.Job, Mappings: f.Mappings, Batch: f.Batch, Interval: f.Interval, MaxParked: f.MaxParked}
}

// Parse reads the content of a file, and touches nothing else. The error is an *Errors.
func Parse(data []byte, filename string) (*File, error) {
	r := &reader{file: filename}
	f := &File{Name: filename, Interval: DefaultInterval, TTL: lockkeeper.DefaultTTL, Batch: DefaultBatch, MaxParked: DefaultParked}
	if len(data) > mostBytes {
		r.fail(nil, "%d bytes: a file has at most %d", len(data), mostBytes)
	} else if root := r.parse(data); root != nil {
		r.document(f, root)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	// Nothing should be left for this to find.
	if _, err := flush.New(stub{}, stub{}, f.Flush()); err != nil {
		r.fail(nil, "%s", err)
		return nil, r.err()
	}
	return f, nil
}

// document reads the outermost level.
func (r *reader) document(f *File, root ast.Node) {
	o := r.object(root, "the file", "job", "database", "interval", "batch", "ttl", "max_parked", "mappings")
	for name, e := range o {
		switch name {
		case "job":
			if f.Job, _ = r.text(e); f.Job != "" {
				r.checkJob(e, f.Job)
			}
		case "database":
			if f.Database, _ = r.text(e); f.Database != "" {
				r.checkDatabase(e, f.Database)
			}
		case "interval":
			f.Interval = r.duration(e, leastInterval)
		case "ttl":
			f.TTL = r.duration(e, leastTTL)
		case "batch":
			f.Batch = r.integer(e, 1, mostBatch)
		case "max_parked":
			f.MaxParked = r.share(e, leastParked)
		case "mappings":
			r.mappings(f, e)
		}
	}
	if _, ok := root.(*ast.MappingNode); !ok {
		return
	}
	for _, name := range []string{"job", "mappings"} {
		if _, ok := o[name]; !ok {
			r.fail(root, "%q is missing", name)
		}
	}
}

func (r *reader) checkJob(e entry, job string) {
	if _, err := flush.NewProducer(stub{}, "", job); err != nil {
		r.fail(e.value, "%s", plain(err))
	}
}

// checkDatabase does not repeat the URL, which may have a password.
func (r *reader) checkDatabase(e entry, url string) {
	if _, err := store.Parse(url); err != nil {
		r.fail(e.value, "%s", err)
	}
}

// plain takes the name of the package off an error.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "flush: ") }

// A stub stands for the connection and the database in checks that use neither.
type stub struct {
	lockkeeper.Conn
	flush.Sink
}
