package main

import (
	"fmt"
	"strings"
)

// A mutant is a bug, as one replacement of text.
type mutant struct {
	name string
	what string // the bug, in one sentence
	file string // from the root of the repository, with slashes
	old  string // must be in the file exactly once
	new  string
	fast bool // one of those that make test plants

	// Each of them has to fail. The strongest is first, and the only one of a fast run.
	killers []killer
}

// A killer is a test that fails where a mutant is planted.
type killer struct {
	setting
	oracle string // the oracle that speaks: O1 to O8, or core for what the simulation checks at each step; "" is none
	test   string // its name, with that of a subtest behind a slash
	want   string // what it says, and does not say where nothing is planted
}

// A setting is what go test needs besides names of tests. Killers of one setting can run
// together.
type setting struct {
	module string // the folder of the module
	pkg    string // as go test takes it, in the module
	env    string // "NAME=VALUE NAME=VALUE"
	short  bool   // with -short
}

// name is what the table calls the killer.
func (k killer) name() string {
	if k.oracle == "" {
		return k.test
	}
	return k.oracle + " " + k.test
}

// plantIn returns the text of the mutant's file with the bug in it.
func (m mutant) plantIn(text string) (string, error) {
	switch strings.Count(text, m.old) {
	case 0:
		return "", fmt.Errorf("the mutant %s does not fit the code any more: its text is not in %s", m.name, m.file)
	case 1:
		return strings.Replace(text, m.old, m.new, 1), nil
	}
	return "", fmt.Errorf("the mutant %s does not fit the code any more: its text is in %s more than once", m.name, m.file)
}

// check says what is wrong with the entry itself.
func (m mutant) check() error {
	switch {
	case m.name == "" || m.what == "" || m.file == "" || m.old == "":
		return fmt.Errorf("the mutant %q lacks a name, a sentence, a file or a text", m.name)
	case m.old == m.new:
		return fmt.Errorf("the mutant %s changes nothing", m.name)
	case len(m.killers) == 0:
		return fmt.Errorf("the mutant %s has no killer", m.name)
	}
	for _, k := range m.killers {
		if k.module == "" || k.pkg == "" || k.test == "" || k.want == "" {
			return fmt.Errorf("a killer of %s lacks a module, a package, a test or a message", m.name)
		}
	}
	return nil
}
