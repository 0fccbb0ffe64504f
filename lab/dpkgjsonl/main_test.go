package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestConvert(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{
			"plain",
			"bash\tamd64\t5.2.15-2+b8\tshells\trequired\t7164\tMatthias Klose <doko@debian.org>\tii \tGNU Bourne Again SHell",
			`{"id":"bash:amd64","version":"5.2.15-2+b8","architecture":"amd64","section":"shells","priority":"required",` +
				`"installed_size":7164,"maintainer":"Matthias Klose <doko@debian.org>","summary":"GNU Bourne Again SHell","status":"ii"}`,
		},
		{
			"quotes, backslashes and a tab in the summary",
			"x\tall\t1\tmisc\toptional\t0\tA \"B\" C <a\\b@c>\tii \tsays \"hi\" \\n\ttwice",
			`{"id":"x:all","version":"1","architecture":"all","section":"misc","priority":"optional",` +
				`"installed_size":0,"maintainer":"A \"B\" C <a\\b@c>","summary":"says \"hi\" \\n\ttwice","status":"ii"}`,
		},
		{
			"letters beyond ASCII",
			"y\tall\t1:2~ß\tmisc\toptional\t1\tJérôme Łukasz 山田 <y@z>\tii \t“café” 🎉",
			`{"id":"y:all","version":"1:2~ß","architecture":"all","section":"misc","priority":"optional",` +
				`"installed_size":1,"maintainer":"Jérôme Łukasz 山田 <y@z>","summary":"“café” 🎉","status":"ii"}`,
		},
		{
			"empty fields of a removed package",
			"z\tamd64\t\t\t\t\t\trc \t",
			`{"id":"z:amd64","version":"","architecture":"amd64","section":"","priority":"",` +
				`"maintainer":"","summary":"","status":"rc"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := convert(&got, strings.NewReader(tt.line+"\n")); err != nil {
				t.Fatal(err)
			}
			if got.String() != tt.want+"\n" {
				t.Errorf("\n got %s\nwant %s", got.String(), tt.want)
			}
		})
	}
}

func TestConvertReportsTheLine(t *testing.T) {
	good := "a\tall\t1\tmisc\toptional\t1\tm\tii \ts\n"
	tests := []struct{ name, second, want string }{
		{"too few fields", "b\tall\t1", "line 2 of dpkg-query: 3 fields, want 9"},
		{"size is no number", "b\tall\t1\tmisc\toptional\t1.5\tm\tii \ts", "package b:all: installed size"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := convert(&bytes.Buffer{}, strings.NewReader(good+tt.second+"\n"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestMissingDpkgQuery(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := run(&bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "no dpkg-query on this machine") {
		t.Errorf("got %v, want an error that says what is missing", err)
	}
}
