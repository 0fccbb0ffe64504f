package flush

import (
	"cmp"
	"embed"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/internal/script"
)

//go:embed lua/*.lua
var luaFiles embed.FS

var (
	markScript     = loadScript("mark")
	pageScript     = loadScript("page")
	intakeScript   = loadScript("intake")
	readScript     = loadScript("read")
	entriesScript  = loadScript("entries")
	ackScript      = loadScript("ack")
	advanceScript  = loadScript("advance")
	rewindScript   = loadScript("rewind")
	holdScript     = loadScript("hold")
	unholdScript   = loadScript("unhold")
	touchScript    = loadScript("touch")
	digestScript   = loadScript("digest")
	walkScript     = loadScript("walk")
	fieldsScript   = loadScript("fields")
	pickScript     = loadScript("pick")
	markedScript   = loadScript("marked")
	controlScript  = loadScript("control")
	memberScript   = loadScript("member")
	databaseScript = loadScript("database")
	epochScript    = loadScript("epoch")
	statusScript   = loadScript("status")
)

// loadScript reads an embedded file; it can't fail for the names above.
func loadScript(name string) *script.Script { return script.New(scriptText(name)) }

func scriptText(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// MarkScript returns the source of the script that writes and marks in one step, for
// producers in any language: EVAL it with the four keys of Keys.Mark. Its header
// says what it takes; docs/PROTOCOL.md has examples.
func MarkScript() string { return scriptText("mark") }

// Keys are the keys of one job on Redis. They have no TTL: a mark that expired would
// be a change that is lost.
type Keys struct {
	Dirty    string // sorted set: changed key, by when it first became dirty
	Versions string // hash: changed key, version of its latest change and U or D
	Clock    string // the last version
	Changed  string // set: keys that an application says it has changed, in a transaction of its own
	Deleted  string // set: keys that an application says it has deleted, in a transaction of its own
	Epoch    string // of the worker that may acknowledge
	Parked   string // hash: key that can't be flushed, and why
	Waiting  string // sorted set: marks whose rows refer to rows that are not there yet
	Cursors  string // hash: key of a stream, ID of the last entry that is in the database
	Control  string // hash: what operators ask for, and which mappings are paused
	Members  string // hash: process, how it is

	prefix string // of all keys of Lockkeeper; of the job's alone where there is none
	base   string
}

// Held returns the sorted set that has the marks of a mapping that is paused.
func (k Keys) Held(table string) string { return k.base + "held:" + table }

// Digests returns the hash that has what a mapping's keys were when they were last
// compared, see Mapping.Scan.
func (k Keys) Digests(table string) string { return k.base + "digests:" + table }

// KeysOf returns the keys of a job under a prefix; "" is lockkeeper.DefaultPrefix, and
// lockkeeper.NoPrefix is none.
func KeysOf(prefix, job string) Keys {
	switch prefix {
	case "":
		prefix = lockkeeper.DefaultPrefix
	case lockkeeper.NoPrefix:
		prefix = ""
	}
	base := prefix + "flush:{" + job + "}:"
	return Keys{
		Dirty:    base + "dirty",
		Versions: base + "versions",
		Clock:    base + "clock",
		Changed:  base + "changed",
		Deleted:  base + "deleted",
		Epoch:    base + "epoch",
		Parked:   base + "parked",
		Waiting:  base + "waiting",
		Cursors:  base + "cursors",
		Control:  base + "control",
		Members:  base + "members",
		prefix:   cmp.Or(prefix, base),
		base:     base,
	}
}

// Mark returns the keys that the mark script takes for a change of a data key.
func (k Keys) Mark(key string) []string {
	return []string{key, k.Dirty, k.Versions, k.Clock}
}

// checkJob refuses names that can't be keys and resources.
func checkJob(job string) error {
	if job == "" || len(job) > 200 || strings.ContainsAny(job, "{} \n\r\t\x00") {
		return fmt.Errorf("flush: job name %q: 1 to 200 bytes without braces and white space", job)
	}
	return nil
}
