//! Named questions about a trace, or about all ranks of a run.

use super::config::{AskedQuestion, ReplayConfig};
use anyhow::{Result, bail};
use etlink_analysis::findings::{
    GraphAnswer, QuestionError, RankAnswer, WhatIfQuestion, answer_for_graph, straggler_edits,
};
use etlink_link::LinkedTrace;
use etlink_model::{Diagnostic, Failure, NodeIdx, Setting, diagnostic};
use etlink_replay::{LabelSource, ReplayGraph};

/// Answers from a rank's trace, per question; empty for a question about several ranks.
pub(super) type RankAnswers = Vec<Result<RankAnswer, QuestionError>>;

pub(super) fn rank_answers(questions: &[WhatIfQuestion], trace: &LinkedTrace) -> RankAnswers {
    let questions = questions.iter();
    questions
        .map(|question| {
            if question.needs_ranks() {
                Ok(RankAnswer::default())
            } else {
                question.rank_answer(trace)
            }
        })
        .collect()
}

impl ReplayConfig {
    /// Applies the questions' changes to the graph of a trace. Also returns notes on the answers.
    pub(super) fn ask_trace(
        mut self,
        trace: &LinkedTrace,
        graph: &ReplayGraph,
        input: &str,
    ) -> Result<(ReplayConfig, Vec<Diagnostic>)> {
        let mut notes = vec![];
        for question in self.questions.clone() {
            let answer = question.rank_answer(trace);
            let answer = answer.map_err(|why| no_answer(input, &question, &why))?;
            let answer = answer_for_graph(graph, &[(NodeIdx(0), &answer)]);
            notes.extend(self.apply(&question, graph, answer));
        }
        Ok((self, notes))
    }

    /// Applies the changes of an answer. Returns notes on it.
    fn apply(
        &mut self,
        question: &WhatIfQuestion,
        graph: &ReplayGraph,
        answer: GraphAnswer,
    ) -> Vec<Diagnostic> {
        self.settings.edits.extend(&answer.edits);
        self.asked.push(AskedQuestion {
            question: question.to_string(),
            caveat: question.caveat(),
            predicted: answer.predicted,
            memory: answer.memory,
        });
        let doubt = question.doubt(graph, &answer.edits).map(str::to_owned);
        let notes = answer.notes.into_iter().chain(doubt);
        notes
            .map(|note| diagnostic!(WhatIfCaveat, "{} {question}: {note}", Setting::WhatIf))
            .collect()
    }

    /// Rejects questions about a written graph, which has no calls, groups, or devices.
    pub(super) fn refuse_questions(&self, input: &str) -> Result<()> {
        if let Some(question) = self.questions.first() {
            let problem = format!(
                "{input}: {} {question}: a written graph lacks the necessary data",
                Setting::WhatIf
            );
            bail!(Failure::new(problem).advise("replay the original traces"));
        }
        Ok(())
    }

    /// Applies the questions' changes to the graph of all ranks. `ranks`: for each rank, its first
    /// node in that graph and its answers. Also returns notes, such as the reason why some ranks
    /// have no answer.
    pub(super) fn ask_ranks(
        mut self,
        graph: &ReplayGraph,
        labels: &dyn LabelSource,
        ranks: &[(NodeIdx, RankAnswers)],
        input: &str,
    ) -> Result<(ReplayConfig, Vec<Diagnostic>)> {
        let mut notes = vec![];
        for (at, question) in self.questions.clone().iter().enumerate() {
            if let WhatIfQuestion::Straggler(rank) = question {
                let edits = straggler_edits(graph, labels, *rank);
                let edits = edits.map_err(|why| no_answer(input, question, &why))?;
                let answer = GraphAnswer {
                    edits,
                    ..GraphAnswer::default()
                };
                self.apply(question, graph, answer);
                continue;
            }
            let (mut answered, mut failed) = (vec![], vec![]);
            for (first, answers) in ranks {
                match answers.get(at) {
                    Some(Ok(answer)) => answered.push((*first, answer)),
                    Some(Err(why)) => failed.push(why),
                    None => {}
                }
            }
            let answer = answer_for_graph(graph, &answered);
            notes.extend(self.apply(question, graph, answer));
            // If at least one rank has an answer, the question may not apply to the others.
            match failed.first() {
                // Ranks of different sizes would be no run.
                Some(why) if failed.len() == ranks.len() || question.is_about_sizes() => {
                    return Err(no_answer(input, question, why));
                }
                Some(why) => notes.push(diagnostic!(
                    WhatIfCaveat,
                    "{} {question}: {} of {} ranks are unchanged: {why}",
                    Setting::WhatIf,
                    failed.len(),
                    ranks.len()
                )),
                None => {}
            }
        }
        Ok((self, notes))
    }
}

fn no_answer(input: &str, question: &WhatIfQuestion, why: &QuestionError) -> anyhow::Error {
    let asked = format!("{input}: {} {question}", Setting::WhatIf);
    anyhow::Error::new(why.clone()).context(asked)
}
