package main

// adapters are bugs in goredisconn and rueidisconn.
var adapters = []mutant{
	{
		name: "go-redis-retries",
		what: "go-redis sends a script again whose answer is lost.",
		file: "goredisconn/goredisconn.go",
		old:  "func (*request) NoRetry() bool { return true }",
		new:  "func (*request) NoRetry() bool { return false }",
		killers: []killer{
			goRedis.says("TestSuite", "--- FAIL: TestSuite/deadlines_forbidden/no_retry"),
		},
	},
	{
		name: "go-redis-error-is-no-answer",
		what: "An error of the server looks like a connection that broke.",
		file: "goredisconn/reply.go",
		old:  "\tif reply := replyError(err); reply != nil {\n\t\treturn reply\n\t}\n",
		new:  "",
		killers: []killer{
			goRedis.says("TestConformance", "--- FAIL: TestConformance/error_reply"),
		},
	},
	{
		name: "rueidis-error-without-its-code",
		what: "An error of rueidis has lost its code.",
		file: "rueidisconn/reply.go",
		old:  "\ts, err := m.ToString()\n\tif err != nil {\n\t\treturn nil, lockkeeper.NewReplyError(s)",
		new:  "\ts, err := m.ToString()\n\tif err != nil {\n\t\treturn nil, lockkeeper.NewReplyError(err.Error())",
		killers: []killer{
			rueidis.says("TestSuite", `Code:"ERR"`),
		},
	},
}
