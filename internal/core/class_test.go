package core_test

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/core"
)

// The server's errors, in its words.
func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		code, line string
		class      core.Class
		noEffect   bool
	}{
		{"LOADING", "LOADING Redis is loading the dataset in memory", core.Transient, true},
		{"BUSY", "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", core.Transient, true},
		{"READONLY", "READONLY You can't write against a read only replica.", core.Transient, true},
		{"MASTERDOWN", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", core.Transient, true},
		{"NOREPLICAS", "NOREPLICAS Not enough good replicas to write.", core.Transient, true},
		{"MISCONF", "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", core.Transient, true},
		{"OOM", "OOM command not allowed when used memory > 'maxmemory'.", core.Transient, true},
		{"CLUSTERDOWN", "CLUSTERDOWN The cluster is down", core.Transient, true},
		{"TRYAGAIN", "TRYAGAIN Multiple keys request during rehashing of slot", core.Transient, true},
		{"MOVED", "MOVED 3999 127.0.0.1:6381", core.Transient, true},
		{"ASK", "ASK 3999 127.0.0.1:6381", core.Transient, true},
		{"NOSCRIPT", "NOSCRIPT No matching script. Please use EVAL.", core.Transient, true},
		{"ERR", "ERR max number of clients reached", core.Transient, true},
		{"NOAUTH", "NOAUTH Authentication required.", core.Refused, true},
		{"ERR", "ERR Protocol error: unauthenticated multibulk length", core.Refused, true},
		{"WRONGPASS", "WRONGPASS invalid username-password pair or user is disabled.", core.Refused, true},
		{"DENIED", "DENIED Redis is running in protected mode", core.Refused, true},
		{"CROSSSLOT", "CROSSSLOT Keys in request don't hash to the same slot", core.Refused, true},
		// These may come from a script's second command.
		{"NOPERM", "NOPERM this user has no permissions to run the 'publish' command", core.Refused, false},
		{"WRONGTYPE", "WRONGTYPE Operation against a key holding the wrong kind of value", core.Refused, false},
		{"ERR", "ERR user_script:3: Script attempted to access nonexistent global variable 'x'", core.Refused, false},
		{"WHATEVER", "WHATEVER comes next", core.Refused, false},
		{"", "", core.Refused, false},
	} {
		if got := core.Classify(tt.code, tt.line); got != tt.class {
			t.Errorf("%s: class %d, want %d", tt.line, got, tt.class)
		}
		if got := core.NoEffect(tt.code, tt.line); got != tt.noEffect {
			t.Errorf("%s: no effect %t, want %t", tt.line, got, tt.noEffect)
		}
	}
}
