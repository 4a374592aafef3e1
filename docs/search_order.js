// Order of search results: guides and tutorials, then experiments, then the API reference.
const LATER = { api: -1000, validation: 0 };

var Scorer = {
  score: ([page, , , , score]) => score + (LATER[page.split("/")[0]] ?? 1000),
  // The defaults of Sphinx.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
