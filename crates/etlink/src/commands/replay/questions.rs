//! Named questions about a trace, or about all ranks of a run.

use super::ReplayConfig;
use super::config::Predicted;
use anyhow::{Result, bail};
use etlink_findings::{
    PredictedMemory, PredictedTime, QuestionError, RankAnswer, WhatIfQuestion, answer_for_graph,
    straggler_edits,
};
use etlink_link::LinkedTrace;
use etlink_model::{Failure, NodeIdx, Setting};
use etlink_replay::{LabelSource, ReplayGraph};
use serde::Serialize;

/// A question and the caveat of its answer.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AskedQuestion {
    question: String,
    caveat: &'static str,
    /// Time of work before and after, by what the prediction rests on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicted: Vec<PredictedTime>,
    /// Peak memory of the device that needs most, if allocations are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<PredictedMemory>,
}

impl AskedQuestion {
    pub(super) fn from_config(config: &ReplayConfig) -> Vec<AskedQuestion> {
        let questions = config.questions.iter().enumerate();
        let asked = questions.map(|(at, question)| {
            let predicted = config.predicted.get(at).cloned().unwrap_or_default();
            AskedQuestion {
                question: question.to_string(),
                caveat: question.caveat(),
                predicted: predicted.times,
                memory: predicted.memory,
            }
        });
        asked.collect()
    }

    pub(super) fn question(&self) -> &str {
        &self.question
    }

    /// True if the answer has predicted durations, with an error of their own.
    pub(super) fn is_predicted(&self) -> bool {
        !self.predicted.is_empty()
    }

    pub(super) fn predicted(&self) -> &[PredictedTime] {
        &self.predicted
    }

    pub(super) fn memory(&self) -> Option<&PredictedMemory> {
        self.memory.as_ref()
    }

    pub(super) fn caveat(&self) -> &'static str {
        self.caveat
    }
}

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
    ) -> Result<(ReplayConfig, Vec<String>)> {
        let mut notes = vec![];
        for question in &self.questions {
            let answer = question.rank_answer(trace);
            let answer = answer.map_err(|why| no_answer(input, question, &why))?;
            let answer = answer_for_graph(graph, &[(NodeIdx(0), &answer)]);
            self.settings.edits.extend(&answer.edits);
            self.predicted.push(Predicted {
                times: answer.predicted,
                memory: answer.memory,
            });
            let doubt = question.doubt(graph, &answer.edits).map(str::to_owned);
            notes.extend(question_notes(
                question,
                answer.notes.into_iter().chain(doubt),
            ));
        }
        Ok((self, notes))
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
    ) -> Result<(ReplayConfig, Vec<String>)> {
        let mut notes = vec![];
        for (at, question) in self.questions.iter().enumerate() {
            if let WhatIfQuestion::Straggler(rank) = question {
                let edits = straggler_edits(graph, labels, *rank);
                let edits = edits.map_err(|why| no_answer(input, question, &why))?;
                self.settings.edits.extend(&edits);
                self.predicted.push(Predicted::default());
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
            self.settings.edits.extend(&answer.edits);
            self.predicted.push(Predicted {
                times: answer.predicted,
                memory: answer.memory,
            });
            let doubt = question.doubt(graph, &answer.edits).map(str::to_owned);
            notes.extend(question_notes(
                question,
                answer.notes.into_iter().chain(doubt),
            ));
            // If at least one rank has an answer, the question may not apply to the others.
            match failed.first() {
                // Ranks of different sizes would be no run.
                Some(why) if failed.len() == ranks.len() || question.is_about_sizes() => {
                    return Err(no_answer(input, question, why));
                }
                Some(why) => notes.push(format!(
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

fn question_notes(question: &WhatIfQuestion, notes: impl Iterator<Item = String>) -> Vec<String> {
    notes
        .map(|note| format!("{} {question}: {note}", Setting::WhatIf))
        .collect()
}

fn no_answer(input: &str, question: &WhatIfQuestion, why: &QuestionError) -> anyhow::Error {
    let asked = format!("{input}: {} {question}", Setting::WhatIf);
    anyhow::Error::new(why.clone()).context(asked)
}
