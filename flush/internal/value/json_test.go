package value

import (
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, s := range []string{
		`{}`, `[]`, `null`, `true`, `""`, ` 1 `, "\t{\n}\r", `{"a":1,"a":2}`, `-0`, `1e999`, `12345678901234567890.12345678901234567890`,
		`"\ud83d\ude00"`, `"\uD83D\uDE00"`, `"\\u0000"`, `"\\\\u0000"`, `"\\ud800"`, `"\u0001"`, `"\"\\\/\b\f\n\r\t"`, `"\uffff\u0020"`, `"\u00e9"`,
		`"` + strings.Repeat("[", 10_000) + `"`, `"\"` + strings.Repeat("{", 10_000) + `"`,
		deep(500), strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500), "[" + strings.Repeat("[],", 10_000) + "[]]",
		"[" + strings.Repeat(`"\ud83d\ude00",`, 10) + "1]",
	} {
		if v, err := (Type{Kind: JSON}).Convert(s, Rules{}); v != s || err != nil {
			t.Errorf("%.60q: %.60v, %v", s, v, err)
		}
	}
	for s, want := range map[string]string{
		``: "is not JSON", ` `: "is not JSON", `{`: "is not JSON", `{"a"}`: "is not JSON", `[1,]`: "is not JSON", `01`: "is not JSON",
		`+1`: "is not JSON", `.5`: "is not JSON", `NaN`: "is not JSON", `'a'`: "is not JSON", `"a`: "is not JSON", `"\`: "is not JSON",
		`"\u00"`: "is not JSON", `"\x00"`: "is not JSON", `1 2`: "is not JSON", `[1] x`: "is not JSON", "\ufeff1": "is not JSON",
		"\"\x00\"": "is not JSON", "\"\n\"": "is not JSON", "1\x00": "is not JSON", `]`: "is not JSON", `\u0000`: "is not JSON",
		"\"\xff\"":               "is not UTF-8",
		"\"\xed\xa0\x80\"":       "is not UTF-8",
		`"\u0000"`:               `has the escape \u0000`,
		`{"\u0000":1}`:           `has the escape \u0000`,
		`"a\\\u0000"`:            `has the escape \u0000`,
		`["\n",{"a":"b\u0000"}]`: `has the escape \u0000`,
		`"\ud800"`:               "has half of a surrogate pair",
		`"\uD800x"`:              "has half of a surrogate pair",
		`"\ud800\n"`:             "has half of a surrogate pair",
		`"\ud800\ud800\udc00"`:   "has half of a surrogate pair",
		`"\ud800\u0041"`:         "has half of a surrogate pair",
		`"\udc00"`:               "has half of a surrogate pair",
		`"\udbff\uda00"`:         "has half of a surrogate pair",
		`"\udbff"`:               "has half of a surrogate pair",
		`"\udbff\ue000"`:         "has half of a surrogate pair",
		`"\udc00\ud800"`:         "has half of a surrogate pair",
		`"\ud83d\ude00\ude00"`:   "has half of a surrogate pair",
		`["\ud83d","\ude00"]`:    "has half of a surrogate pair",
		deep(501):                "nested more than 500 deep",
		deep(1e6):                "nested more than 500 deep",
		strings.Repeat("[", 501): "nested more than 500 deep",
		strings.Repeat(`{"a":`, 501) + "1" + strings.Repeat("}", 501):          "nested more than 500 deep",
		`["\\"` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `,"a]`: "nested more than 500 deep",
	} {
		if v, err := (Type{Kind: JSON}).Convert(s, Rules{Replace: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %.60v, %v; want an error with %q", s, v, err, want)
		} else {
			checkReason(t, s, err)
		}
	}
}
